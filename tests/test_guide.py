"""The guide of CONTRIBUTING.md, followed to the letter."""

import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import documents
import maillard as mb
import naive
from histories import exactly, random_history, replay
from maillard.compiled import disabled
from maillard.environments.environment import REGISTRY as ENVIRONMENTS
from maillard.evaluation.catalogue import ESTIMATORS
from maillard.policies.policy import REGISTRY as POLICIES

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "CONTRIBUTING.md"


def skeleton(name: str) -> str:
    """The one Python block of the guide that defines a class or function of this name."""
    blocks = [block.text for block in documents.blocks(GUIDE) if block.language == "python"]
    (found,) = [text for text in blocks if re.search(rf"^(class|def) {name}\b", text, re.M)]
    return found


def test_a_policy_passes_the_conformance_suite(tmp_path: Path) -> None:
    (tmp_path / "my_policy.py").write_text(skeleton("TemperedKLMS"), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "tests/test_conformance.py", "-p", "my_policy"]
    result = subprocess.run(
        [*command, "-k", "tempered-kl-ms", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) >= 15  # type: ignore[index]


def test_a_policy_and_its_oracle_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    slug, scope = "tempered-kl-ms", dict[str, Any]()
    monkeypatch.setattr(naive, "ORACLES", dict(naive.ORACLES))
    try:
        exec(skeleton("TemperedKLMS"), scope)
        exec(skeleton("tempered_kl_ms"), {**vars(naive)})
        for seed, heat in enumerate((0.5, 1.0, 4.0)):
            history = random_history(seed, 3, 30, binary=False)
            policy = replay(mb.policy(slug, 3, temperature=heat), history)
            expected = naive.ORACLES[slug](exactly(history), 3, {"temperature": heat})
            assert policy.probabilities() == pytest.approx([float(p) for p in expected], rel=1e-11)
        result = mb.simulate(slug, mb.Bernoulli([0.2, 0.8]), horizon=50, trials=8, seed=0)
        assert slug in str(result.summary())
    finally:
        POLICIES.pop(slug, None)


def test_every_policy_has_an_oracle() -> None:
    """`tests/naive.py` has the formula of every policy once more, and parameters to try it with."""
    own = {name for name, cls in mb.catalogue().items() if cls.__module__.startswith("maillard.")}
    assert own - set(naive.EXAMPLES) == set()
    assert set(naive.EXAMPLES) - set(naive.ORACLES) == set()


def test_an_environment_pays_what_it_says() -> None:
    scope: dict[str, Any] = {}
    try:
        exec(skeleton("Power"), scope)
        environment = mb.environment("power", a=[2.0, 0.5])
        assert type(environment) is scope["Power"]
        assert mb.environment_from(environment.spec()).spec() == environment.spec()
        np.testing.assert_allclose(environment.means, [2 / 3, 1 / 3], rtol=1e-15)
        log = mb.collect("uniform", environment, horizon=200 if disabled() else 20_000, seed=0)
        columns = log.to_arrow()
        arm, reward = columns["arm"].to_numpy(), columns["reward"].to_numpy()
        for a in range(2):
            # Of mean and variance; 7 standard errors are wrong once in 4e11.
            paid = reward[arm == a]
            slack = 7.0 * np.sqrt(environment.variances[a] / paid.size)
            assert abs(paid.mean() - environment.means[a]) <= slack
            assert abs(paid.var() - environment.variances[a]) <= slack
        result = mb.simulate("kl-ms", environment, horizon=100, trials=8, seed=0)
        assert np.isnan(environment.asymptotic_constant())
        assert "power" in str(result.summary())
    finally:
        ENVIRONMENTS.pop("power", None)


def test_an_estimator_is_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {}
    exec(skeleton("HarmonicIPW"), scope)
    monkeypatch.setitem(ESTIMATORS, "harmonic-ipw", scope["HarmonicIPW"])
    log = mb.collect("exp3", mb.Bernoulli([0.3, 0.6]), horizon=300, seed=2)
    found = mb.evaluate(log, target="uniform", estimators="harmonic-ipw", intervals="normal").best
    columns = log.to_arrow()
    weight = 0.5 / columns["propensity"].to_numpy()
    terms = 2.0 * weight / (1.0 + weight) * columns["reward"].to_numpy()
    assert found.estimate == pytest.approx(terms.mean(), rel=1e-12)
    error = terms.std(ddof=1) / np.sqrt(terms.size)
    assert found.standard_error == pytest.approx(error, rel=1e-9)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = itertools.chain(project["dependencies"], *optional.values())
    names = {re.split(r"[\[<>=]", line)[0].removesuffix("-framework") for line in wanted}
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    extras = set(optional) - {"dev"}
    for name in (names | extras) - {"maillard"}:
        word = name.removesuffix("-parser")
        assert re.search(rf"\b{re.escape(word)}\b", text), f"docs/dependencies.md: why {name}?"
