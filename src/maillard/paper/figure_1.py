"""Figure 1: the uniform policy's value, estimated from logs of KL-MS and of Thompson sampling."""

import numpy as np

from .figures import histograms
from .laboratory import Laboratory, Study
from .page import badge, comparison, data, paragraphs, picture, side_by_side, table, text
from .part import Part, instance
from .protocols import PROTOCOLS, RELEASED, WRITTEN, Array
from .published import Number, published
from .verdicts import compare, found


def run(lab: Laboratory) -> Part:
    """Estimate from both policies' logs, under both protocols."""
    printed = published()["figure_1"]
    means, horizon = tuple(printed["means"]), printed["horizon"]
    samples, trials = printed["samples"], printed["trials"]
    studies = {
        (policy, protocol): lab.study(policy, means, horizon, protocol)
        for policy in ("kl-ms", "thompson")
        for protocol in PROTOCOLS
    }
    # The caption counts invalid trials, so it is from before the floor: see below.
    keys = {
        ("kl-ms", WRITTEN): "exact",
        ("kl-ms", RELEASED): "exact",
        ("thompson", WRITTEN): f"M={samples}",
        ("thompson", RELEASED): f"M={samples} unfloored",
    }
    errors = {place: studies[place].errors(key) for place, key in keys.items()}

    findings = [
        found(
            "Figure 1", f"{name}, mean squared error{rest}", printed["mse"][policy],
            *(
                compare(errors[policy, p], "mse", Number.of(printed["mse"][policy]), trials)
                for p in PROTOCOLS
            ),
        )
        for policy, name, rest in (
            ("kl-ms", "KL-MS", ""),
            ("thompson", "Bernoulli TS", ", invalid trials left out"),
        )
    ]  # fmt: skip
    # "Half" is one digit: 0.45 to 0.55.
    shares = [
        compare(invalid(errors["thompson", p]), "bias", Number.of("0.5"), trials) for p in PROTOCOLS
    ]
    findings.append(found("Figure 1", "Bernoulli TS, share of invalid trials", "half", *shares))

    rows = [
        [text(f.what), f.printed, comparison(f.written), comparison(f.released), badge(f.verdict)]
        for f in findings
    ]
    truth = studies["kl-ms", WRITTEN].truth
    figures = [
        picture(
            histograms(
                {protocol: {p: studies[p, protocol].estimates[keys[p, protocol]]
                            for p in ("kl-ms", "thompson")}},
                truth, width=4.0,
            ),
            f"Histograms of the estimates from logs of KL-MS and of Bernoulli TS, {protocol}; the "
            f"true value {truth:g} is a dashed line. Quantiles are in the table below.",
            f"<b>Figure 1, {protocol}.</b> {caption(studies, protocol, samples)} {link}",
            f"figure-1-{protocol.replace(' ', '-')}",
        )
        for link in [data(write(lab, studies, keys))]
        for protocol in (RELEASED, WRITTEN)
    ]  # fmt: skip
    html = (
        paragraphs(
            f"Both policies play a bandit with means {instance(means)} for T = {horizon:,} rounds. "
            "From the log, the value of the policy that plays each arm with probability 1/2 is "
            f"estimated; the truth is {truth:g}. Thompson sampling's probabilities are estimated "
            f"by M = {samples:,} posterior draws in each round. If the arm that was played wins "
            "none of them, its estimated probability is zero and the estimate does not exist: the "
            "trial is invalid."
        )
        + side_by_side(*figures)
        + table(
            ["", "printed", "as written", "as released,<br>before the floor", "verdict"],
            rows,
            "The numbers in the caption of Figure 1. Behind each of ours its standard error, and "
            "how many standard errors it is from the printed one. † marks a heavy tail.",
            cards=True,
        )
        + paragraphs(
            "The caption reports invalid trials; the released code has none, because it floors "
            "estimated probabilities at 0.5/M. The public history of that code adds the floor on "
            "22 May 2023 (commit 2dd2efd). That Figure 1 is from before that commit is an "
            "inference: the share of invalid trials and the mean squared errors of the released "
            "protocol without the floor are what the caption prints. With the floor the same "
            "setting is a cell of the tables below."
        )
        + spread(studies, keys)
    )
    return Part("figure-1", "Figure 1: estimates from logs", html, findings)


def invalid(errors: Array) -> Array:
    """1 for each trial without a finite estimate."""
    return np.asarray(~np.isfinite(errors), dtype=np.float64)


def caption(studies: dict[tuple[str, str], Study], protocol: str, samples: int) -> str:
    """Protocol, trials and horizon, in words."""
    closed, integrated = studies["kl-ms", protocol], studies["thompson", protocol]
    how = {
        WRITTEN: "Bernoulli rewards, p<sub>t</sub>, IPW",
        RELEASED: "Rewards without noise, p<sub>t+1</sub> without floor, replay of the uniform "
        "policy",
    }[protocol]
    return (
        f"{how}; T = {closed.horizon:,}, {closed.trials:,} trials of KL-MS and "
        f"{integrated.trials:,} of Bernoulli TS, M = {samples:,}; invalid trials left out."
    )


def spread(studies: dict[tuple[str, str], Study], keys: dict[tuple[str, str], str]) -> str:
    """Quantiles of the estimates."""
    levels = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    rows = []
    for (policy, protocol), key in keys.items():
        values = studies[policy, protocol].estimates[key]
        values = values[np.isfinite(values)]
        cells = np.quantile(values, levels) if len(values) else np.full(len(levels), np.nan)
        name = "KL-MS" if policy == "kl-ms" else "Bernoulli TS"
        rows.append([f"{name}, {protocol}", *(f"{x:.3f}" for x in cells), f"{values.max():.3f}"])
    heads = ["", *(f"{100 * q:g} %" for q in levels), "largest"]
    return table(heads, rows, "Quantiles of the valid estimates.")


def write(
    lab: Laboratory, studies: dict[tuple[str, str], Study], keys: dict[tuple[str, str], str]
) -> str:
    """Every estimate, one row each."""
    columns: dict[str, list[object]] = {"policy": [], "protocol": [], "trial": [], "estimate": []}
    for (policy, protocol), key in keys.items():
        values = studies[policy, protocol].estimates[key]
        columns["policy"] += [policy] * len(values)
        columns["protocol"] += [protocol] * len(values)
        columns["trial"] += range(len(values))
        columns["estimate"] += values.tolist()
    return lab.write("figure-1.parquet", columns)
