"""Twelve histograms and eight tables: mean squared error and bias of the estimates."""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from .figures import NAMES, histograms, running_means
from .laboratory import Laboratory, Study
from .page import badge, comparison, data, number, paragraphs, picture, side_by_side, table, text
from .part import Part, instance
from .protocols import PROTOCOLS, RELEASED, WRITTEN, Array
from .published import Cell, cells, published
from .verdicts import (
    AGREES,
    DIFFERS,
    FACTOR,
    HEAVY,
    LEAST,
    LIMIT,
    OPEN,
    Finding,
    alike,
    compare,
    found,
    larger,
    verdict,
)

EXPERIMENT = "Tables"
MEASURES = {"mse": "Mean squared error", "bias": "Bias"}


def run(lab: Laboratory) -> Part:
    """Every histogram and every cell."""
    findings: list[Finding] = []
    html = paragraphs(
        "The same experiment for two bandits, two horizons and three numbers M of posterior draws. "
        "M is Thompson sampling's alone; the three numbers that the paper prints for KL-MS are "
        "three repetitions, and ours are one, beside each of them. Ours for the three M are from "
        "the same logs, with other draws. The draws themselves are not made: how many of M draws "
        "an arm wins is Binomial(M, p) in law, p its exact probability.",
        "The standard error of a printed mean squared error is not known: we take the spread of "
        "ours for it. That of a printed bias follows from the printed mean squared error.",
    )
    for horizon in published()["horizons"]:
        for means in map(tuple, published()["instances"]):
            html += setting(lab, means, horizon, findings)
    html += claims(lab, findings)
    html += explained(lab)
    html += tails(lab)
    return Part("tables", "Twelve histograms and eight tables", html, findings)


def setting(
    lab: Laboratory, means: tuple[float, ...], horizon: int, findings: list[Finding]
) -> str:
    """Three histograms and two tables."""
    studies = {
        (policy, protocol): lab.study(policy, means, horizon, protocol)
        for policy in ("kl-ms", "thompson")
        for protocol in PROTOCOLS
    }
    one = studies["kl-ms", WRITTEN]
    name = f"{means[0]:g}-{means[1]:g}-{horizon}"
    link = data(lab.write(f"estimates-{name}.parquet", estimates(studies)))
    closed, integrated = one.trials, studies["thompson", WRITTEN].trials
    trials = f"{closed:,} trials of KL-MS, {integrated:,} of Bernoulli TS, seed {lab.seed}"
    figures = [
        picture(
            histograms(
                {
                    protocol: {
                        policy: studies[policy, protocol].estimates[
                            studies[policy, protocol].key(samples)
                        ]
                        for policy in ("kl-ms", "thompson")
                    }
                    for protocol in (RELEASED, WRITTEN)
                },
                one.truth,
            ),
            f"Histograms of estimates, means {instance(means)}, T = {one.horizon}, M = {samples}, "
            f"as released and as written; the true value {one.truth:g} is a dashed line.",
            f"<b>M = {samples:,}.</b> {trials}. {link}",
            f"histogram-{name}-{samples}",
        )
        for samples in published()["samples"]
    ]
    html = f"<h3>{instance(means)}, T = {horizon:,}</h3>\n" + side_by_side(*figures)
    for measure, title in MEASURES.items():
        rows = []
        decimals = 6 if max(means) < 0.5 else 5  # one more than printed where errors are tiny
        for cell in cells():
            if (cell.measure, cell.means, cell.horizon) != (measure, means, horizon):
                continue
            ours = [
                compare(
                    studies[cell.policy, p].errors(studies[cell.policy, p].key(cell.samples)),
                    measure, cell.number, published()["trials"], printed_spread(cell),
                )
                for p in PROTOCOLS
            ]  # fmt: skip
            finding = found(EXPERIMENT, what(cell), cell.number.text, *ours)
            findings.append(finding)
            rows.append([
                f"{NAMES[cell.policy]}, M = 10<sup>{math.log10(cell.samples):.0f}</sup>",
                number(cell.number.value, 5),
                comparison(finding.written, decimals),
                comparison(finding.released, decimals),
                badge(finding.verdict),
            ])  # fmt: skip
        html += table(
            ["", "printed", "as written", "as released", "verdict"], rows,
            f"<b>{title}, {instance(means)}, T = {horizon:,}.</b> {trials}. As written, invalid "
            f"trials are left out{lost(studies)}.",
            cards=True,
        )  # fmt: skip
    return html


def printed_spread(cell: Cell) -> float | None:
    """The spread of the paper's trials behind a bias: the table of squared errors says it."""
    if cell.measure == "mse":
        return None
    (beside,) = (c for c in cells() if c.measure == "mse" and c[2:6] == cell[2:6])
    return math.sqrt(max(beside.number.value - cell.number.value**2, 0.0))


def what(cell: Cell) -> str:
    """A cell in words."""
    return (
        f"{MEASURES[cell.measure]}, {instance(cell.means)}, T = {cell.horizon:,}, "
        f"{NAMES[cell.policy]}, M = {cell.samples:,}"
    )


def lost(studies: dict[tuple[str, str], Study]) -> str:
    """Shares of invalid trials as written, where there are any."""
    study = studies["thompson", WRITTEN]
    shares = {
        samples: float(np.mean(~np.isfinite(study.estimates[f"M={samples}"])))
        for samples in published()["samples"]
    }
    said = [f"{100 * share:.1f} % for M = {m:,}" for m, share in shares.items() if share > 0.0]
    return f" ({', '.join(said)})" if said else ""


def estimates(studies: dict[tuple[str, str], Study]) -> dict[str, list[object]]:
    """Every estimate of a setting, one row each."""
    columns: dict[str, list[object]] = {
        "policy": [], "protocol": [], "propensities": [], "trial": [], "estimate": [],
    }  # fmt: skip
    for (policy, protocol), study in studies.items():
        for key, values in study.estimates.items():
            columns["policy"] += [policy] * len(values)
            columns["protocol"] += [protocol] * len(values)
            columns["propensities"] += [key] * len(values)
            columns["trial"] += range(len(values))
            columns["estimate"] += values.tolist()
    return columns


# --------------------------------------------------------------------------------------------------
# What the paper says of them


#: A setting: policy, means, horizon, M.
Place = tuple[str, tuple[float, ...], int, int]


class Pair(NamedTuple):
    """Two settings of which the first is said to have the larger error, or as large a one."""

    first: Place
    second: Place


def claims(lab: Laboratory, findings: list[Finding]) -> str:
    """The paper's three sentences, cell by cell: in its own tables and in ours."""
    grid = [
        (tuple(means), horizon, samples)
        for means in published()["instances"]
        for horizon in published()["horizons"]
        for samples in published()["samples"]
    ]
    few, *many = published()["samples"]
    short, long = published()["horizons"]
    said: list[tuple[str, list[Pair], bool]] = [
        (
            "(1) KL-MS's logs give a smaller error than Thompson sampling's.",
            [Pair(("thompson", *place), ("kl-ms", *place)) for place in grid],
            True,
        ),
        (
            f"(2) With M = {few:,} Thompson sampling's error is higher than with the largest M.",
            [
                Pair(("thompson", means, horizon, few), ("thompson", means, horizon, many[-1]))
                for means, horizon, samples in grid
                if samples == few
            ],
            True,
        ),
        (
            f"(2) With M = {many[0]:,} or more it is on a par with KL-MS's.",
            [Pair(("thompson", *p), ("kl-ms", *p)) for p in grid if p[2] in many],
            False,
        ),
        (
            "(3) Thompson sampling's error grows with T.",
            [
                Pair(("thompson", means, long, samples), ("thompson", means, short, samples))
                for means, horizon, samples in grid
                if horizon == short
            ],
            True,
        ),
        (
            "(3) KL-MS's stays at the same level.",
            [
                Pair(("kl-ms", means, long, few), ("kl-ms", means, short, few))
                for means, horizon, samples in grid
                if horizon == short and samples == few
            ],
            False,
        ),
    ]
    rows = []
    for words, pairs, is_larger in said:
        judge = larger if is_larger else alike
        tallies = {
            p: Counter(judge(*(squares(lab, p, place) for place in pair)) for pair in pairs)
            for p in PROTOCOLS
        }
        outcomes = [judged(tallies[p]) for p in PROTOCOLS]
        finding = Finding(EXPERIMENT, words, "claimed", None, None, verdict(*outcomes))
        findings.append(finding)
        rows.append([
            f'<span class="say">{text(words)}</span>',
            shown(Counter(from_paper(*pair, is_larger=is_larger) for pair in pairs)),
            *(shown(tallies[p]) for p in PROTOCOLS),
            badge(finding.verdict),
        ])  # fmt: skip
    return (
        "<h3>What the paper concludes</h3>\n"
        + paragraphs(
            "Each sentence compares the mean squared errors of some pairs of settings. A pair "
            f"speaks for it or against it if the difference is beyond {LIMIT:g} standard errors, "
            "and decides nothing otherwise; printed numbers count as they stand. “On a par” and "
            f"“the same level” are taken as: neither is more than {FACTOR:g} times the other. A "
            "sentence reproduces if no pair speaks against it and half of them at least for it."
        )
        + table(
            ["claim", "printed", "as written", "as released", "verdict"],
            rows,
            "Pairs that speak for the sentence / decide nothing / speak against it.",
            cards=True,
        )
    )


def judged(counts: dict[str, int]) -> str:
    """What pairs say together."""
    if counts[DIFFERS]:
        return DIFFERS
    return AGREES if 2 * counts[AGREES] >= sum(counts.values()) else OPEN


def shown(counts: dict[str, int]) -> str:
    """For / open / against."""
    return f"{counts[AGREES]} / {counts[OPEN]} / {counts[DIFFERS]}"


def squares(lab: Laboratory, protocol: str, place: Place) -> Array:
    """The squared errors of one setting."""
    policy, means, horizon, samples = place
    study = lab.study(policy, means, horizon, protocol)
    return np.asarray(study.errors(study.key(samples)) ** 2)


def from_paper(first: Place, second: Place, *, is_larger: bool) -> str:
    """What the printed numbers say of a pair."""
    printed = {
        (c.policy, c.means, c.horizon, c.samples): c.number.value
        for c in cells()
        if c.measure == "mse"
    }
    a, b = printed[first], printed[second]
    if is_larger:
        return OPEN if a == b else AGREES if a > b else DIFFERS
    return AGREES if max(a, b) <= FACTOR * min(a, b) else DIFFERS


# --------------------------------------------------------------------------------------------------
# Where the differences come from


def explained(lab: Laboratory) -> str:
    """The bias of the released protocol, with and without p_{t+1}; and a floor for the error."""
    rows = []
    for means in map(tuple, published()["instances"]):
        for horizon in published()["horizons"]:
            study = lab.study("kl-ms", means, horizon, RELEASED)
            cells_ = [
                f"{number(float(e.mean()), 5)} <small>± {float(e.std()) / math.sqrt(len(e)):.5f}"
                "</small>"
                for e in (study.errors("exact"), study.errors("p_t"))
            ]
            rows.append([f"{instance(means)}, T = {study.horizon:,}", *cells_])
    low, best = min(published()["instances"][0]), max(published()["instances"][0])
    short = published()["horizons"][0]
    least = least_error((low, best), short)
    return (
        "<h3>Three observations</h3>\n"
        + paragraphs(
            "<b>The bias.</b> An arm that has just been played has been seen once more, so its "
            "probability after the update is not the one it was played with: the inferior arm's "
            "is smaller, for KL-MS without noise by nearly the factor e<sup>−kl(μ_2, μ_1)</sup> "
            "once it is rare, and the estimate divides by it. Dividing by p<sub>t</sub> instead, "
            "which the arm was drawn from, leaves no such bias on the same logs."
        )
        + table(
            ["KL-MS, as released", "bias with p<sub>t+1</sub>", "bias with p<sub>t</sub>"],
            rows,
            "Mean of estimate minus truth, ± standard error; both from the same logs.",
        )
        + paragraphs(
            f"<b>An error that is too small.</b> For {instance((low, best))} and T = {short:,} the "
            "paper prints a mean squared error of 0.00001 for KL-MS, three times. From "
            f"{short:,} Bernoulli rewards no unbiased estimate has less than {least:.6f}, the "
            "variance of the best split, ((σ_1 + σ_2)/2)²/T: rewards as written cannot give it. "
            "The released protocol gives "
            f"{mse(lab.study('kl-ms', (low, best), short, RELEASED), 'exact')}. We found no "
            "protocol that gives the printed number, and do not know where it comes from."
        )
        + repetitions(lab)
    )


def repetitions(lab: Laboratory) -> str:
    """The paper's three numbers for KL-MS are of one kind: do they spread as such?"""
    rows = []
    for horizon in published()["horizons"]:
        for means in map(tuple, published()["instances"]):
            biases = [
                c.number
                for c in cells()
                if (c.measure, c.policy, c.means, c.horizon) == ("bias", "kl-ms", means, horizon)
            ]
            spread = float(np.std([b.value for b in biases], ddof=1))
            errors = lab.study("kl-ms", means, horizon, RELEASED).errors("exact")
            expected = float(errors.std(ddof=1)) / math.sqrt(published()["trials"])
            rows.append([
                f"{instance(means)}, T = {horizon:,}",
                ", ".join(b.text.replace("-", "−") for b in biases),
                f"{spread:.5f}", f"{expected:.5f}", f"{spread / expected:.1f}",
            ])  # fmt: skip
    before = paragraphs(
        "<b>Repetitions that spread.</b> M plays no part in KL-MS's logs, so its three biases in a "
        f"row are repetitions of one experiment of {published()['trials']:,} trials. If the trials "
        "are independent, the standard deviation of the three should be about the standard error "
        "that as many trials as released have."
    )
    after = paragraphs(
        "Where the ratio is large, the printed numbers vary more than independent trials do, and "
        "some fall outside of our limits for that. One thing would do it: the released code runs "
        "its trials in a pool of processes and never seeds NumPy's generator in them. Where "
        "processes are forked, as on Linux, all begin with the same state, and repeat each "
        "other's trials. Whether the paper's runs were made so is not known: an inference at most."
    )
    caption = (
        "Spread of the three printed biases, beside our standard error for "
        f"{published()['trials']:,} trials as released. For three values the ratio is above 2.6 "
        "once in a thousand times."
    )
    heads = ["KL-MS", "printed biases", "their spread", "standard error", "ratio"]
    return before + table(heads, rows, caption, cards=True) + after


def least_error(means: tuple[float, ...], rounds: int) -> float:
    """The variance of the uniform policy's estimated value if both arms are pulled optimally.

    (1/4)(σ_1²/n + σ_2²/(T − n)) is least for n in proportion to σ.
    """
    half = sum(math.sqrt(mean * (1.0 - mean)) for mean in means) / len(means)
    return half**2 / rounds


def mse(study: Study, key: str) -> str:
    """Mean squared error with its standard error."""
    errors = study.errors(key)
    squares = errors[np.isfinite(errors)] ** 2
    return f"{squares.mean():.6f} ± {squares.std() / math.sqrt(len(squares)):.6f}"


def tails(lab: Laboratory) -> str:
    """As written, the mean squared error is carried by a few trials: show that."""
    means, horizon = tuple(published()["instances"][1]), published()["horizons"][1]
    lines, rows = {}, []
    colours = {"kl-ms": "#0072B2", "thompson": "#D55E00"}
    levels = (0.5, 0.9, 0.99)
    for protocol in (WRITTEN, RELEASED):
        for policy in ("kl-ms", "thompson"):
            study = lab.study(policy, means, horizon, protocol)
            squared = study.errors("exact") ** 2
            lines[f"{NAMES[policy]}, {protocol}"] = (colours[policy], squared)
            count = max(1, len(squared) // 100)
            share = np.sort(squared)[-count:].sum() / squared.sum()
            rows.append([
                f"{NAMES[policy]}, {protocol}", mse(study, "exact"),
                *(f"{q:.5f}" for q in np.quantile(squared, levels)), f"{squared.max():.3f}",
                f"{100 * share:.0f} %",
            ])  # fmt: skip
    return (
        "<h3>Heavy tails</h3>\n"
        + paragraphs(
            "As written, the error has a heavy tail: once in a while a log has a pull of "
            "probability near 1/T or below, and its weight outdoes all others. A mean over trials "
            "then rests on a few of them, its standard error is itself uncertain, and two runs of "
            f"2,000 trials may differ by a factor. Where a hundredth of the trials makes up more "
            f"than {100 * HEAVY:.0f} % of the mean squared error we say so (†) and judge by "
            "resampling; a printed number above ours is then left open. Fewer than "
            f"{LEAST} valid trials decide nothing."
        )
        + picture(
            running_means(lines),
            "Mean squared error of the first n trials over n, on logarithmic axes. As written the "
            "lines jump whenever a trial with a large error comes; as released they settle.",
            f"<b>Mean squared error of the first n trials,</b> exact probabilities, "
            f"{instance(means)}, T = {lab.size.horizons[horizon]:,}, seed {lab.seed}; dashed: as "
            "released. The trials are those of the data files above.",
            "running-mean",
        )
        + table(
            ["", "mean squared error", *(f"{100 * q:g} %" for q in levels), "largest",
             "share of the largest 1 %"],
            rows,
            "Squared errors with exact probabilities: mean ± standard error, quantiles, largest.",
        )
    )  # fmt: skip
