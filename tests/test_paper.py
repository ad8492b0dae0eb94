"""The paper's numbers against its source, and the verdicts on made-up numbers."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import maillard as mb
from maillard.paper import verdicts
from maillard.paper.offline import judged, least_error, printed_spread
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
