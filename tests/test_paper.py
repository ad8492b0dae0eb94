"""The paper's numbers, the two protocols and the verdicts, each against something independent."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import maillard as mb
from maillard.paper import laboratory, protocols, verdicts
from maillard.paper.offline import judged, least_error, printed_spread
from maillard.paper.protocols import RELEASED, WRITTEN, Rows
from maillard.paper.published import Number, cells, published

ROOT = Path(__file__).parent.parent
SOURCE = ROOT.parent / "shared" / "reference" / "kl-ms-paper.tex"

# --------------------------------------------------------------------------------------------------
# published.json against the source

#: One of the eight tables, as the source has it.
EXCERPT = r"""
            \caption{MSEs for $\mu = [0.80, 0.90]$, $T=1,000$}
            \label{table:mse-exp-2-T-1K}
        \hfill
            \begin{tabular}{llll}
            \hline
                        & \multicolumn{3}{c}{$M$}  \\ \cline{2-4}
                        & $10^3$ & $10^4$     & $10^5$    \\ \hline
            BernoulliTS &  0.01464  & 0.01143 & 0.01228 \\
            KL-MS       &  0.00733  & 0.00782 & 0.00749 \\ \hline
            \end{tabular}
"""


def tables_in(source: str) -> list[dict[str, Any]]:
    """The tables of errors in LaTeX, as `published.json` has them."""
    pattern = (
        r"\\caption\{(MSEs|Bias) for \$\\mu = \[([\d., ]+)\]\$, \$T=([\d,]+)\$\}"
        r"\s*\\label\{([^}]*)\}(.*?)\\end\{tabular\}"
    )
    found = []
    for measure, means, horizon, label, body in re.findall(pattern, source, re.S):
        rows = {
            slug: re.findall(r"-?\d\.\d+", re.search(rf"{name}\s*&(.*?)\\\\", body)[1])  # type: ignore[index]
            for name, slug in (("BernoulliTS", "thompson"), ("KL-MS", "kl-ms"))
        }
        found.append(
            {
                "label": label,
                "measure": {"MSEs": "mse", "Bias": "bias"}[measure],
                "means": [float(mean) for mean in means.split(",")],
                "horizon": int(horizon.replace(",", "")),
                "cells": rows,
            }
        )
    return found


def test_published_tables_against_an_excerpt() -> None:
    (table,) = tables_in(EXCERPT)
    assert table in published()["tables"]


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not beside the checkout")
def test_published_against_the_source() -> None:
    source = SOURCE.read_text(encoding="utf-8")
    assert tables_in(source) == published()["tables"]
    figure = published()["figure_1"]
    caption = source[source.index("Figure 1: Histogram") : source.index(r"\label{fig:offline}")]
    for number in (figure["mse"]["kl-ms"], figure["mse"]["thompson"], figure["value"]):
        assert number in caption
    assert f"T={figure['horizon']:,}" in caption
    assert f"{figure['samples']} samples" in caption
    assert f"{figure['trials']} trials" in caption
    assert figure["invalid"] in caption
    (timing,) = re.findall(
        r"KL-MS uses \$([\d.]+)\$s .*? BernoulliTS .*? uses \$([\d.]+)\$s", source
    )
    assert timing == tuple(published()["timing"]["seconds"][p] for p in ("kl-ms", "thompson"))
    for label in published()["histograms"] + [entry["label"] for entry in published()["regret"]]:
        assert rf"\label{{{label}}}" in source


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not beside the checkout")
def test_table_1_against_the_source() -> None:
    source = SOURCE.read_text(encoding="utf-8")
    start = source.index("Minimax Ratio")
    body = source[start : source.index(r"\end{tabular}", start)]
    rows = [
        row.split("&") for row in re.findall(r"^\s*(\S.*&.*citet.*|.*this paper.*)\\\\", body, re.M)
    ]
    rows = [[cell.strip() for cell in row] for row in rows]
    ours = [row for row in published()["table_1"] if row["algorithm"] != "TS"]
    assert len(rows) == len(ours) == 9
    ratios = {r"$\sqrt{\ln K}$": "√(ln K)", r"$\sqrt{\ln T}$": "√(ln T)", "$1$": "1", "$-$": "–"}
    stars = {r"$-^{\star\star}$": "–**", "$-$": "–", r"\text { yes }": "yes"}
    closed = {
        r"\text { no }": "no", r"\text { N/A }": "N/A", r"\text {N/A}": "N/A",
        r"$\text {no}^\star$": "no*", r"\text { yes }": "yes",
    }  # fmt: skip
    for row, mine in zip(rows, ours, strict=True):
        assert re.sub(r"[^a-z]", "", mine["policy"]) in re.sub(r"[^a-z]", "", row[0].lower())
        assert ratios[re.sub(r"\s", "", row[1]).replace(r"\ln", r"\ln ")] == mine["minimax_ratio"]
        assert stars[row[2]] == mine["sub_ucb"]
        assert closed[row[3]] == mine["closed_form"]


def test_cells() -> None:
    found = list(cells())
    assert len(found) == 8 * 6
    assert len({(c.measure, c.means, c.horizon, c.policy, c.samples) for c in found}) == 48
    assert Number.of("0.00796") == (0.00796, 0.000005, "0.00796")
    assert {row["policy"] for row in published()["table_1"]} <= set(mb.catalogue())


# --------------------------------------------------------------------------------------------------
# Verdicts on made-up numbers


def normal(n: int, mean: float = 0.0, sd: float = 1.0) -> Any:
    """The quantiles of a normal law: a sample without chance."""
    return mean + sd * stats.norm.ppf((np.arange(n) + 0.5) / n)


def test_differences_are_in_standard_errors() -> None:
    errors = normal(2000, mean=0.01, sd=0.1)
    found = verdicts.compare(errors, "bias", Number.of("0.0200"), 500)
    assert found.value == pytest.approx(0.01)
    assert found.error == pytest.approx(errors.std(ddof=1) / math.sqrt(2000))
    both = math.sqrt(0.1**2 / 2000 + 0.1**2 / 500 + (0.0001**2 / 12))
    assert found.difference == pytest.approx(-0.01 / both, rel=0.01)
    assert found.outcome == verdicts.AGREES
    assert not found.heavy


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [("0.0100", verdicts.AGREES), ("0.0111", verdicts.AGREES), ("0.0119", verdicts.DIFFERS),
     ("0.0082", verdicts.DIFFERS), ("0.00001", verdicts.DIFFERS)],
)  # fmt: skip
def test_mean_squared_errors(printed: str, outcome: str) -> None:
    # Squares of normal errors have the spread √2 times their mean: 0.00045 for both means.
    found = verdicts.compare(normal(2000, sd=0.1), "mse", Number.of(printed), 2000)
    assert found.value == pytest.approx(0.01, rel=0.01)
    assert found.error == pytest.approx(0.01 * math.sqrt(2 / 2000), rel=0.02)
    assert found.largest_share == pytest.approx(0.085, abs=0.005)
    assert found.outcome == outcome


def test_a_printed_spread_takes_the_place_of_ours() -> None:
    errors = normal(2000, mean=0.0, sd=0.1)
    wide = verdicts.compare(errors, "bias", Number.of("0.0090"), 200)
    narrow = verdicts.compare(errors, "bias", Number.of("0.0090"), 200, printed_spread=0.001)
    assert (wide.outcome, narrow.outcome) == (verdicts.AGREES, verdicts.DIFFERS)
    assert narrow.difference == pytest.approx(-0.009 / (0.1 / math.sqrt(2000)), rel=0.01)
    low, high = verdicts.resampled(errors, 200, spread=0.5)
    sd = math.sqrt(0.1**2 / 2000 + 0.5**2 / 200)
    assert (low, high) == (pytest.approx(-3.0 * sd, rel=0.25), pytest.approx(3.0 * sd, rel=0.25))


def test_the_tables_say_the_spread_behind_a_bias() -> None:
    (cell,) = (c for c in cells() if c.number.text == "0.17947")
    assert printed_spread(cell) == pytest.approx(math.sqrt(0.06842 - 0.17947**2))
    assert all(printed_spread(c) is None for c in cells() if c.measure == "mse")


def test_rounding_of_the_printed_digits_counts() -> None:
    errors = normal(2000, sd=math.sqrt(2e-6))
    assert verdicts.compare(errors, "mse", Number.of("0.00000"), 2000).outcome != verdicts.AGREES
    far = verdicts.compare(errors, "mse", Number.of("0.000000"), 2000)
    near = verdicts.compare(errors, "mse", Number.of("0.00000"), 2000)
    assert abs(near.difference) < abs(far.difference) / 5.0


def test_few_trials_decide_nothing() -> None:
    few = verdicts.compare(normal(99), "bias", Number.of("9.0"), 2000)
    assert (few.outcome, few.reason) == (verdicts.OPEN, "too few trials")
    # Enough to be counted, but a printed number half or twice as large would do as well.
    errors = np.concatenate([normal(140, sd=0.1), np.full(6, 0.36)])
    assert verdicts.compare(errors, "mse", Number.of("0.012"), 10).outcome == verdicts.OPEN
    none = verdicts.compare(np.array([np.nan, np.inf]), "mse", Number.of("0.5"), 2000)
    assert (none.outcome, none.trials) == (verdicts.OPEN, 0)
    assert none.to_dict()["value"] is None


def test_invalid_trials_are_left_out() -> None:
    errors = np.concatenate([normal(500), [np.nan, np.inf, -np.inf]])
    assert verdicts.compare(errors, "mse", Number.of("1.0"), 2000).trials == 500


def heavy(n: int = 2000) -> Any:
    """Errors whose square root of the tail is that of a Pareto law of index 1.2."""
    return ((np.arange(n) + 0.5) / n) ** (-1.0 / 1.2)


def test_heavy_tails_are_judged_by_resampling() -> None:
    errors = heavy()
    share = verdicts.largest_share(errors**2)
    assert share > verdicts.HEAVY
    ours = float(np.mean(errors**2))
    low, high = verdicts.resampled(errors**2, 2000)
    assert 0.0 < low < ours < high
    cases = {0.5 * low: verdicts.DIFFERS, ours: verdicts.AGREES, 2.0 * high: verdicts.OPEN}
    for printed, outcome in cases.items():
        found = verdicts.compare(errors, "mse", Number.of(f"{printed:.5f}"), 2000)
        assert found.outcome == outcome
        assert found.heavy
        assert found.reason


def test_resampling_has_the_spread_of_both_samples() -> None:
    low, high = verdicts.resampled(normal(1000), 500)
    sd = math.sqrt(1 / 1000 + 1 / 500)
    assert low == pytest.approx(-3.0 * sd, rel=0.25)
    assert high == pytest.approx(3.0 * sd, rel=0.25)


def test_shares_of_the_largest() -> None:
    assert verdicts.largest_share(np.ones(200)) == pytest.approx(0.01)
    assert verdicts.largest_share(np.array([1.0, 3.0])) == 0.75
    assert verdicts.largest_share(np.zeros(3)) == 0.0


A, D, O = verdicts.AGREES, verdicts.DIFFERS, verdicts.OPEN


@pytest.mark.parametrize(
    ("written", "released", "words"),
    [
        (A, A, "reproduces"),
        (A, O, "reproduces"),
        (A, D, "reproduces only as written"),
        (D, A, "reproduces only as released"),
        (O, A, "reproduces as released"),
        (D, D, "does not reproduce"),
        (D, O, "undecided"),
        (O, D, "undecided"),
        (O, O, "undecided"),
    ],
)
def test_verdicts(written: str, released: str, words: str) -> None:
    assert verdicts.verdict(written, released) == words


def test_which_is_larger() -> None:
    small, large = normal(500) + 0.0, normal(500) + 1.0
    assert verdicts.larger(large, small) == A
    assert verdicts.larger(small, large) == D
    assert verdicts.larger(small, small + 0.1) == O
    assert verdicts.larger(large[:50], small) == O
    assert verdicts.larger(np.append(large, np.inf), small) == A


def test_which_are_on_a_par() -> None:
    """Neither more than twice the other."""
    one = normal(500) + 10.0
    assert verdicts.alike(one, one + 5.0) == A
    assert verdicts.alike(one + 5.0, one) == A
    assert verdicts.alike(one, one + 10.0) == O  # on the verge
    assert verdicts.alike(one, one + 15.0) == D
    assert verdicts.alike(one + 15.0, one) == D
    assert verdicts.alike(one[:50], one) == O


def test_claims_of_many_pairs() -> None:
    assert judged({A: 6, O: 6, D: 0}) == A
    assert judged({A: 5, O: 7, D: 0}) == O
    assert judged({A: 11, O: 0, D: 1}) == D


def test_the_least_error() -> None:
    """No split of the rounds does better than the formula, and the best whole one is near it."""
    means, rounds = (0.2, 0.25), 1000
    splits = np.arange(1, rounds)
    a, b = (mean * (1.0 - mean) for mean in means)
    variances = 0.25 * (a / splits + b / (rounds - splits))
    assert least_error(means, rounds) <= variances.min()
    assert least_error(means, rounds) == pytest.approx(variances.min(), rel=1e-5)


# --------------------------------------------------------------------------------------------------
# The protocols


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
