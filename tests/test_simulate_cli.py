"""`maillard simulate` as a user meets it: options, TOML, files, interruption, misuse."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import maillard as mb
from maillard.cli import main
from maillard.environments import Bernoulli
from maillard.simulation import progress, sweep
from maillard.simulation import run as run_module

SMALL = ["--horizon", "12", "--trials", "5", "--checkpoints", "4"]


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, words)], catch_exceptions=False)


def ok(*words: Any) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_one_run(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    words = ["--policy", "kl-ms", "--policy", "thompson:prior=1,1", "--means", "0.8,0.9", *SMALL]
    text = ok(*words, "--out", out)
    assert "Regret after 12 rounds · bernoulli · means 0.8, 0.9" in text
    assert names(out) == ["regret.png", "result.parquet", "run.json"]
    result = mb.simulate(
        ["kl-ms", "thompson:prior=1,1"], Bernoulli([0.8, 0.9]), 12, 5, checkpoints=4
    )
    assert mb.Result.read(out) == result
    assert ok(*words, "--out", out, "--resume", "--quiet") == ""
    printed = json.loads(ok(*words, "--json", "--workers", 1, "--seed", 0))
    for entry, expected in zip(printed["policies"], result.to_dict()["policies"], strict=True):
        del entry["nanoseconds_per_step"], expected["nanoseconds_per_step"]
        assert entry == expected


def test_nothing_is_written_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ok("--policy", "ms", "--environment", "gaussian:means=0.1,0.2,sd=0.5", *SMALL, "--paired")
    assert list(tmp_path.iterdir()) == []


TOML = """
policies = ["kl-ms", {policy = "kl-ms", booster = [2, 4]}, "thompson:prior=1,1"]
horizon = [8, 12]
trials = 3
checkpoints = [4]

[[environment]]
environment = "bernoulli"
means = [[0.8, 0.9], [0.2, 0.25]]
"""


def test_a_sweep(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    file, out = tmp_path / "sweep.toml", tmp_path / "out"
    file.write_text(TOML)
    runs = json.loads(ok(file, "--out", out, "--json"))["runs"]
    assert [entry["horizon"] for entry in runs] == [8, 12, 8, 12]
    assert [entry["environment"].get("means") for entry in runs[::2]] == [[0.8, 0.9], [0.2, 0.25]]
    labels = [*(f"kl-ms:booster={b}" for b in (1, 2, 4)), "thompson"]
    for number, entry in enumerate(runs, start=1):
        assert [policy["label"] for policy in entry["policies"]] == labels
        assert entry["checkpoints"] == [4, entry["horizon"]]
        result = mb.Result.read(out / f"run-{number}")
        assert result.to_dict() == entry
        assert (out / f"run-{number}" / "regret.png").exists()
    table = pq.read_table(out / "results.parquet").to_pandas()
    assert len(table) == 4 * 4 * 2
    row = table[(table.run == 3) & (table.policy == "thompson") & (table["round"] == 8)].iloc[0]
    assert json.loads(row.environment) == runs[2]["environment"]
    assert row.regret == runs[2]["policies"][3]["regret"][-1]
    assert len(names(out)) == 4 * 3 + 1


def test_options_go_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(TOML)
    words = ["--policy", "ms", "--horizon", 9, "--means", "0.1,0.2", "--means", "0.1,0.3"]
    runs = json.loads(ok(file, *words, "--trials", 2, "--json"))["runs"]
    assert [(r["horizon"], r["trials"], r["environment"]["means"]) for r in runs] == [
        (9, 2, [0.1, 0.2]),
        (9, 2, [0.1, 0.3]),
    ]


def test_grids() -> None:
    def policies(given: Any) -> list[Any]:
        return list(sweep.policy_grid(given))

    assert policies("ms") == [{"policy": "ms"}]
    assert policies("thompson:prior=1,1") == [{"policy": "thompson", "prior": [1, 1]}]
    assert policies("kl-ms:booster=1,2") == [
        {"policy": "kl-ms", "booster": 1},
        {"policy": "kl-ms", "booster": 2},
    ]
    both = policies({"policy": "thompson", "prior": [[1, 1], [2, 1]], "floor": [0, 0.1]})
    assert [(p["prior"], p["floor"]) for p in both] == list(
        itertools.product([[1, 1], [2, 1]], [0, 0.1])
    )
    assert len(policies({"policy": "exp3++", "version": ["2014", "2017"]})) == 2
    assert len(policies({"policy": "ms", "rewards": [0, 1]})) == 1
    assert len(policies({"policy": "ms", "rewards": [[0, 1], [0, 2]]})) == 2
    assert len(policies("fixed:weights=1,2")) == 1
    given: dict[str, Any] = {"environment": "gaussian", "means": [0, 1], "sd": [1, 2]}
    (world,) = sweep.environment_grid(given)
    assert world.variances.tolist() == [1.0, 4.0]
    given["means"] = [[0, 1], [0, 2]]
    batched = {"environment": "batched", "size": [1, 5], "inner": given}
    specs = [world.spec() for world in sweep.environment_grid(batched)]
    assert [(spec["size"], spec["inner"]["means"]) for spec in specs] == list(
        itertools.product([1, 5], [[0.0, 1.0], [0.0, 2.0]])
    )
    table = [[0.5, 0.5], [0.1, 0.9]]
    given = {"environment": "categorical", "values": [0, 1], "probabilities": table}
    assert len(list(sweep.environment_grid(given))) == 1
    given["probabilities"] = [table, table]
    assert len(list(sweep.environment_grid(given))) == 2
    recorded: dict[str, Any] = {"environment": "replay", "table": table}
    assert len(list(sweep.environment_grid(recorded))) == 1
    assert len(list(sweep.environment_grid({**recorded, "table": [table, table]}))) == 2
    assert len(list(sweep.environment_grid("replay:table=[[0,1],[1,0]]"))) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "there is no policy: name one at least"),
        (["--policy", "ms"], "there is no environment"),
        (["--policy", "sm", "--means", "0.1,0.2"], "unknown policy 'sm'"),
        (["--policy", "ms", "--means", "0.1,1.2"], "means"),
        (["--policy", "ms", "--means", "0.1"], "means must be a list"),
        (["--policy", "ms", "--means", "a,b"], "bernoulli: means"),
        (["--policy", "ms:=2", "--means", "0.1,0.2"], "is not of the form"),
        (["--policy", "ms", "--environment", "gaus:means=1,2"], "unknown environment 'gaus'"),
        (["--policy", "kl-ms", "--environment", "gaussian:means=1,2"], "kl-ms is for"),
        (["--policy", "ms", "--means", "0.1,0.2", "--horizon", 1], "too short for 2 arms"),
        (["--policy", "ms", "--means", "0.1,0.2", "--trials", 0], "trials must be"),
        (["--policy", "ms", "--means", "0.1,0.2", "--workers", 0], "workers must be"),
        (["--policy", "ms", "--means", "0.1,0.2", "--resume"], "--resume needs --out"),
        (["--policy", "ms", "--policy", "ms", "--means", "0.1,0.2"], "ms is there twice"),
    ],
)
def test_misuse_is_one_line(words: list[Any], why: str, tmp_path: Path) -> None:
    result = call(*words, *([] if "--resume" in words else ["--out", tmp_path / "out"]))
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.startswith("maillard: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("policies = ", "is not a TOML file"),
        ("polices = ['ms']", "unknown key 'polices': did you mean 'policies'"),
        ("policies = [3]\nenvironment = 'bernoulli:means=0.1,0.2'", "a policy is a name"),
        ("policies = 'ms'\nenvironment = 3", "an environment is text"),
        ("policies = 'ms'\nenvironment = []", "there is no environment"),
        ("policies = 'ms'\nenvironment = {means = [0.1, 0.2]}", "an environment is text"),
        ("policies = 'ms'\nenvironment = 'bernoulli:means=0.1,0.2'\nhorizon = []", "no horizon"),
        ("policies = []\nenvironment = 'bernoulli:means=0.1,0.2'", "there is no policy"),
        ("policies = 'ms'\nenvironment = 'bernoulli:means=0.1,0.2'\nhorizon = 'x'", "horizon"),
        ("policies = 'ms'\nenvironment = 'bernoulli:means=0.1,0.2'\npaired = 1", "paired"),
        ("policies = {policy = 'ms', booster = []}\nenvironment = 'poisson:means=1,2'", "booster"),
    ],
)
def test_damaged_descriptions(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    result = call(file)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    assert call(tmp_path / "absent.toml").exit_code == 2
    (tmp_path / "sweep.toml").write_bytes(b"\xff\xfe\x00")
    assert call(tmp_path / "sweep.toml").exit_code == 2


def test_a_sweep_never_writes_over_another(tmp_path: Path) -> None:
    words = ["--policy", "ms", "--means", "0.1,0.2", "--means", "0.1,0.3", *SMALL]
    ok(*words, "--out", tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    result = call(*words, "--out", tmp_path)
    assert result.exit_code == 2
    assert "run-1 holds a run already" in result.stderr
    (tmp_path / "run-1" / "run.json").unlink()
    result = call(*words, "--out", tmp_path)
    assert "run-2 holds a run already" in result.stderr
    assert {n: (tmp_path / n).read_bytes() for n in names(tmp_path)} == {
        k: v for k, v in before.items() if k != os.path.join("run-1", "run.json")
    }


def test_without_matplotlib_there_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    result = call("--policy", "ms", "--means", "0.1,0.2", *SMALL, "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stderr == "maillard: no figures: pip install 'maillard[plots]'\n"
    assert names(tmp_path) == ["result.parquet", "run.json"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match="figures need Matplotlib: pip install"):
        mb.Result.read(tmp_path).plot()


def test_interruption_before_anything_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "run", interrupted)
    result = call("--policy", "ms", "--means", "0.1,0.2", *SMALL)
    assert result.exit_code == 130
    assert result.stderr == "maillard: interrupted before any trial was complete\n"


def test_interruption_between_the_runs_of_a_sweep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, calls = run_module.run, iter([1, 2])

    def interrupted(*given: Any, **named: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return run(*given, **named)

    monkeypatch.setattr(run_module, "run", interrupted)
    words = ["--policy", "ms", "--means", "0.1,0.2", "--means", "0.1,0.3", *SMALL]
    result = call(*words, "--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "maillard: interrupted: 1 of 2 runs are complete; --resume goes on\n"
    assert "run-1/regret.png" in names(tmp_path)
    monkeypatch.undo()
    ok(*words, "--out", tmp_path, "--resume")
    assert "run-2/regret.png" in names(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are not known there")
def test_ctrl_c_writes_what_is_complete_and_resume_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--policy", "kl-ms", "--means", "0.8,0.9", "--horizon", "20000", "--trials", "6400",
             "--checkpoints", "8", "--workers", "1", "--out", str(out)]  # fmt: skip
    command = [sys.executable, "-m", "maillard", "simulate", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    pieces = out / "pieces"
    while not (pieces.exists() and any(pieces.glob("[0-9]*.parquet"))):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "maillard: interrupted: complete are kl-ms" in errors
    assert "--resume goes on" in errors
    assert "Traceback" not in errors
    part = mb.Result.read(out)
    assert 0 < part["kl-ms"].trials < 6400
    assert names(out) == ["regret.png", "result.parquet", "run.json"]
    ok(*words, "--resume")
    assert mb.Result.read(out) == mb.simulate(
        "kl-ms", Bernoulli([0.8, 0.9]), 20_000, 6_400, checkpoints=8
    )


def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {"horizon": 5, "trials": 3}
    mb.simulate("ms", Bernoulli([0.1, 0.2]), **settings)
    assert capsys.readouterr() == ("", "")
    mb.simulate("ms", Bernoulli([0.1, 0.2]), **settings, progress=True)
    assert capsys.readouterr().out == ""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with progress.progress(True, "first", 1000, 500, console) as advance:
        for _ in range(2):
            time.sleep(0.05)
            advance("second", 125)
    for word in ("first", "second", "75%", "steps/s"):
        assert word in text.getvalue()
    assert [progress.rate(x) for x in (5.0, 12_345.0, 2e6, 123e6, 1.5e12)] == [
        "5", "12.3 k", "2 M", "123 M", "1500 G",
    ]  # fmt: skip


def test_help_shows_the_form_of_a_file_and_it_works(tmp_path: Path) -> None:
    """The description in the help is one that runs."""
    lines = ok("--help").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "sweep.toml:")
    stop = next(i for i, line in enumerate(lines) if line.strip().startswith("Where one value"))
    file = tmp_path / "sweep.toml"
    file.write_text("\n".join(lines[start + 1 : stop]))
    plans = sweep.plans(sweep.from_toml(file))
    assert len(plans) == 8
    assert [job.label for job in plans[0].jobs][-1] == "kl-ms:booster=4"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from maillard.cli import main\n"
        "try: main(['simulate', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'numpy', 'rich', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
