"""The two protocols and the logs behind them, against plain simulations and exact arithmetic."""

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import maillard as mb
from maillard.paper import laboratory, protocols, verdicts
from maillard.paper.protocols import RELEASED, WRITTEN, Rows


def rows_of(arm: Any, propensity: Any, reward: Any) -> Rows:
    return Rows(np.array(arm), np.array(propensity, dtype=float), np.array(reward, dtype=float))


def test_ipw_in_fractions() -> None:
    rows = rows_of([[0, 1, 1, 0]], [[0.5, 0.25, 1.0, 0.125]], [[1, 0, 0.5, 1]])
    terms = [
        Fraction(1, 2) * Fraction(r) / Fraction(p)
        for p, r in zip(rows.propensity[0], rows.reward[0], strict=True)
    ]
    assert protocols.ipw(rows, rows.propensity) == [float(sum(terms) / 4)]
    zero = np.array([[0.5, 0.25, 1.0, 0.0]])
    assert not np.isfinite(protocols.ipw(rows, zero)).any()
    # A zero spoils the estimate even where the reward was zero: 0/0.
    assert not np.isfinite(protocols.ipw(rows, np.array([[0.5, 0.0, 1.0, 1.0]]))).any()


class Coins:
    """In place of a generator: uniform numbers that were fixed beforehand."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def random(self, shape: tuple[int, ...]) -> Any:
        assert self.values.shape == shape
        return self.values


def test_replay_over_all_coins() -> None:
    """The mean over all 2^5 ways of matching is what the formula of the protocol expects."""
    rows = rows_of([[0, 1, 1, 0, 1]], [[1, 1, 0.25, 0.5, 0.8]], [[0.8, 0.9, 0.9, 0.8, 0.9]])
    found = []
    for coins in itertools.product((0.0, 0.9), repeat=5):
        estimate = protocols.replay(rows, rows.propensity, Coins([coins]))  # type: ignore[arg-type]
        matched = [t for t in range(2, 5) if coins[t] < 0.5]
        plain = sum(rows.reward[0, t] / rows.propensity[0, t] for t in matched) / 5
        assert estimate == pytest.approx(plain)
        found.append(estimate[0])
    expected = 0.5 * (0.9 / 0.25 + 0.8 / 0.5 + 0.9 / 0.8) / 5
    assert np.mean(found) == pytest.approx(expected)


def test_a_zero_that_is_not_matched_does_no_harm() -> None:
    rows = rows_of([[0, 1, 0, 0]], [[1, 1, 0.0, 0.5]], [[0.8, 0.9, 0.8, 0.8]])
    beside = protocols.replay(rows, rows.propensity, Coins([[0, 0, 0.9, 0.1]]))  # type: ignore[arg-type]
    assert beside == pytest.approx([0.4])
    hit = protocols.replay(rows, rows.propensity, Coins([[0, 0, 0.1, 0.1]]))  # type: ignore[arg-type]
    assert hit == [np.inf]


@pytest.mark.parametrize("name", ["kl-ms", pytest.param("thompson", marks=pytest.mark.slow)])
def test_probabilities_after_the_update(name: str) -> None:
    """p_{t+1} of the arm of round t, from the log alone and from the online policy."""
    means = (0.8, 0.9)
    log = mb.collect(
        protocols.logger(name, RELEASED), protocols.environment(means, RELEASED), 9, 2, workers=1
    )
    every = Rows.of(log, 2)
    assert (every.arm[:, :2] == [0, 1]).all()
    assert np.allclose(every.reward, np.where(every.arm == 0, *means))
    before, following = protocols.after_update(every)
    assert before.arm.shape == following.shape == (2, 8)
    for run in range(2):
        policy = mb.policy(name, arms=2)
        for t in range(8):
            policy.update(int(before.arm[run, t]), float(before.reward[run, t]))
            if t >= 1:
                p = policy.probabilities()[before.arm[run, t]]
                assert following[run, t] == pytest.approx(p, rel=1e-9)


def test_monte_carlo_has_the_law_of_posterior_draws() -> None:
    """Shares of M posterior draws, made one by one, and Binomial(M, p)/M with the exact p.

    Both against the binomial law with p integrated by SciPy: two χ² tests at 1e-7.
    """
    (a, b), (c, d) = (5.5, 2.5), (11.5, 2.5)
    p, _ = integrate.quad(
        lambda x: stats.beta.pdf(x, a, b) * stats.beta.cdf(x, c, d), 0.0, 1.0, epsabs=1e-12
    )
    policy = mb.policy("thompson", arms=2)
    for arm, wins, losses in ((0, 5, 2), (1, 11, 2)):
        for reward in [1.0] * wins + [0.0] * losses:
            policy.update(arm, reward)
    assert policy.probabilities()[0] == pytest.approx(p, rel=1e-9)

    samples, repeats = 40, 20_000
    rng = np.random.default_rng(7)
    left, right = rng.beta(a, b, (repeats, samples)), rng.beta(c, d, (repeats, samples))
    brute = (left > right).sum(axis=1)
    shares = protocols.monte_carlo(rng, samples, np.full(repeats, p))
    short = np.rint(shares * samples).astype(int)
    assert np.allclose(short / samples, shares)
    law = repeats * stats.binom.pmf(np.arange(samples + 1), samples, p)
    common = law >= 5.0
    expected = np.append(law[common], law[~common].sum())
    for counts in (brute, short):
        seen = np.bincount(counts, minlength=samples + 1)
        observed = np.append(seen[common], seen[~common].sum())
        assert stats.chisquare(observed, expected * repeats / expected.sum()).pvalue > 1e-7


def released_plainly(policy: str, means: Any, horizon: int, samples: int, trials: int) -> Any:
    """The released experiment written out step by step, with posterior draws and all."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(trials):
        pulls, total = np.zeros(2), np.zeros(2)
        p = np.full(2, 0.5)
        estimate = 0.0
        for t in range(horizon):
            if t < 2:
                arm = t
            elif policy == "kl-ms":
                arm = int(rng.random() >= p[0])
            else:
                arm = int(np.argmax(rng.beta(0.5 + total, 0.5 + pulls - total)))
            pulls[arm] += 1.0
            total[arm] += means[arm]
            if policy == "thompson":
                draws = rng.beta(0.5 + total, 0.5 + pulls - total, size=(samples, 2))
                share = float(np.mean(np.argmax(draws, axis=1) == arm))
                logged = max(share, 0.5 / samples)
            elif t >= 1:
                mu = total / pulls
                top = mu.max()
                kl = mu * np.log(mu / top) + (1 - mu) * np.log((1 - mu) / (1 - top))
                weight = np.exp(-pulls * kl)
                p = weight / weight.sum()
                logged = p[arm]
            if t >= 2 and rng.random() < 0.5:
                estimate += means[arm] / logged
        found.append(estimate / horizon)
    return np.array(found)


@pytest.mark.parametrize("policy", ["kl-ms", pytest.param("thompson", marks=pytest.mark.slow)])
def test_the_released_protocol_has_the_law_of_its_plain_simulation(policy: str) -> None:
    """Means and mean squares of the estimates agree within 5.5 standard errors of both."""
    means, horizon, samples = (0.8, 0.9), 40, 25
    trials = 2048 if policy == "thompson" else 512
    log = mb.collect(
        protocols.logger(policy, RELEASED), protocols.environment(means, RELEASED),
        horizon + 1, trials, seed=3,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    found = laboratory.estimates(Rows.of(log, trials), RELEASED, [samples], rng)
    ours = found["exact" if policy == "kl-ms" else f"M={samples}"]
    plain = released_plainly(policy, means, horizon, samples, 1500)
    for a, b in ((ours, plain), (ours**2, plain**2)):
        error = math.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < 5.5 * error


def test_ipw_of_exact_probabilities_is_unbiased() -> None:
    log = mb.collect(
        protocols.logger("kl-ms", WRITTEN), protocols.environment((0.3, 0.5), WRITTEN), 20, 512
    )
    rows = Rows.of(log, 512)
    # As written the first pulls are sure: they are worth (1/2) r instead of the mean of both.
    found = laboratory.estimates(rows, WRITTEN, [], np.random.default_rng(0))["exact"]
    expected = (0.5 * (0.3 + 0.5) + 18 * 0.4) / 20
    assert abs(found.mean() - expected) < 5.5 * found.std() / math.sqrt(512)


def size(**changes: Any) -> laboratory.Size:
    """A size for tests: seconds, and verdicts that mean nothing."""
    usual: dict[str, Any] = {
        "name": "tiny", "regret": 4, "others": 3, "slow": 0, "closed": 70,
        "integrated": {1_000: 66, 10_000: 66}, "evaluated": 6, "repeats": 1,
        "horizons": {1_000: 40, 10_000: 60},
    }  # fmt: skip
    return laboratory.Size(**{**usual, **changes})


def test_studies_do_not_depend_on_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory, "_ROWS", 1)  # pieces of 64 logs
    found = [
        laboratory.Laboratory(size(), tmp_path, workers=workers).study(
            "kl-ms", (0.8, 0.9), 10_000, WRITTEN
        )
        for workers in (1, 3)
    ]
    assert found[0].trials == 70
    assert np.array_equal(found[0].estimates["exact"], found[1].estimates["exact"])
    assert {estimator for estimator, _ in found[0].evaluated} >= {"dm", "ipw", "snipw"}
    for name, answers in found[0].evaluated.items():
        assert answers.shape == (3, 6)
        assert np.array_equal(answers, found[1].evaluated[name], equal_nan=True)


def test_an_interrupted_simulation_ends_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `simulate` gives back after Ctrl-C is a part of the trials, which will not do here."""
    lab = laboratory.Laboratory(size(), tmp_path)
    world = mb.Bernoulli([0.8, 0.9])
    part = lab.simulate(["uniform"], world, 3)
    assert (part.horizon, part.trials) == (60, 3)
    part.wanted = ((0, 4),)
    assert not part.complete
    monkeypatch.setattr(mb, "simulate", lambda *given, **options: part)
    with pytest.raises(KeyboardInterrupt):
        lab.simulate(["uniform"], world, 4)


def test_every_size_has_enough_trials_for_a_verdict() -> None:
    for one in laboratory.SIZES.values():
        assert min(one.closed, *one.integrated.values(), one.regret) >= verdicts.LEAST
        assert one.horizons == {1_000: 1_000, 10_000: 10_000}
    full = laboratory.SIZES["full"]
    assert {full.closed, full.regret, full.others, *full.integrated.values()} == {2_000}
