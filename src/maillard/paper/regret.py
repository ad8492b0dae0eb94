"""The two figures of regret, as the paper has them, and again with all other policies."""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import maillard as mb

from .figures import NAMES, regret_dots, regret_lines, regret_many
from .laboratory import Laboratory
from .page import badge, data, paragraphs, picture, side_by_side, table, text
from .part import Part, instance
from .protocols import PROTOCOLS, RELEASED, WRITTEN, environment, logger
from .published import published
from .verdicts import AGREES, DIFFERS, LIMIT, OPEN, Finding, verdict

POLICIES = ("kl-ms", "ms", "thompson")
BAND = (0.025, 0.5, 0.975)
#: Policies that take thousands of nanoseconds a step, and what is no policy that learns.
SLOW = ("top-two-thompson",)
LEFT_OUT = ("fixed",)


def run(lab: Laboratory) -> Part:
    """Simulate both instances under both protocols, then everything else as written."""
    instances = [tuple(entry["means"]) for entry in published()["regret"]]
    findings: list[Finding] = []
    html = paragraphs(
        "KL-MS, MS and Bernoulli Thompson sampling with the prior Beta(1/2, 1/2) on two bandits. "
        "The paper shows the curves and says what they show: KL-MS is better than MS by a "
        "margin, and worse than Thompson sampling. It prints no numbers. As released, rewards "
        "are the arms' means, so a policy knows both means after two rounds: the bands are narrow."
    )
    results = {
        (means, protocol): simulated(lab, means, protocol)
        for means in instances
        for protocol in PROTOCOLS
    }
    for protocol in PROTOCOLS:
        html += side_by_side(
            *(figure(lab, results[means, protocol], means, protocol) for means in instances)
        )
    html += table(
        ["", *(f"{NAMES[p]}" for p in POLICIES)],
        [
            [f"{instance(means)}, {protocol}", *(ending(result, p) for p in POLICIES)]
            for (means, protocol), result in results.items()
        ],
        f"Regret after {next(iter(results.values())).horizon:,} rounds: mean ± standard error.",
    )
    for means in instances:
        for better, worse, words in (
            ("kl-ms", "ms", "KL-MS has less regret than MS"),
            ("thompson", "kl-ms", "Bernoulli TS has less regret than KL-MS"),
        ):
            outcomes = [less(results[means, p], better, worse) for p in PROTOCOLS]
            findings.append(
                Finding("Regret", f"{instance(means)}: {words}", "claimed", None, None,
                        verdict(*outcomes))
            )  # fmt: skip
    html += table(
        ["claim", "verdict"],
        [[text(f.what), badge(f.verdict)] for f in findings],
        f"What the paper says of the curves; a difference counts from {LIMIT:g} standard errors.",
    )
    html += repository(results)
    html += others(lab, instances)
    return Part("regret", "Regret", html, findings)


def simulated(lab: Laboratory, means: tuple[float, ...], protocol: str) -> mb.Result:
    """The paper's three policies."""
    return lab.simulate(
        [logger(policy, protocol) for policy in POLICIES],
        environment(means, protocol),
        lab.size.regret,
        checkpoints=128,
        spacing="linear",
        quantiles=BAND,
    )


def label(result: mb.Result, policy: str) -> str:
    """How the result calls a policy: its name, perhaps with parameters."""
    return next(name for name in result.policies if name.partition(":")[0] == policy)


def less(result: mb.Result, better: str, worse: str) -> str:
    """Whether the first policy's regret is the smaller one."""
    a, b = (result[label(result, policy)] for policy in (better, worse))
    difference = float(b.regret[-1] - a.regret[-1])
    error = math.hypot(float(a.error[-1]), float(b.error[-1]))
    if not abs(difference) > LIMIT * error:
        return OPEN
    return AGREES if difference > 0.0 else DIFFERS


def ending(result: mb.Result, policy: str) -> str:
    """Regret at the end."""
    curve = result[label(result, policy)]
    return f"{curve.regret[-1]:.2f} <small>± {curve.error[-1]:.2f}</small>"


def figure(lab: Laboratory, result: mb.Result, means: tuple[float, ...], protocol: str) -> str:
    """One of the paper's figures."""
    name = f"regret-{means[0]:g}-{means[1]:g}-{protocol.replace(' ', '-')}"
    said = ", ".join(
        f"{NAMES[p]} {result[label(result, p)].regret[-1]:.1f}" for p in POLICIES
    )  # fmt: skip
    rewards = "Bernoulli rewards" if protocol == WRITTEN else "Rewards without noise"
    return picture(
        regret_lines(result),
        f"Regret over the rounds, means {instance(means)}, {protocol}. At the end: {said}.",
        f"<b>Regret, {instance(means)}, {protocol}.</b> {rewards}; mean and the band of 95 % of "
        f"the trials; T = {result.horizon:,}, {result.trials:,} trials, seed {result.seed}. "
        f"{data(lab.write(f'{name}.csv', columns(result)))}",
        name,
    )


def columns(result: mb.Result) -> dict[str, Any]:
    """The curves as a table."""
    found: dict[str, list[Any]] = {
        "policy": [], "round": [], "regret": [], "standard_error": [], "low": [], "high": [],
    }  # fmt: skip
    for name, curve in result.curves.items():
        found["policy"] += [name] * len(result.rounds)
        found["round"] += result.rounds.tolist()
        found["regret"] += curve.regret.tolist()
        found["standard_error"] += curve.error.tolist()
        found["low"] += curve.quantile(BAND[0]).tolist()
        found["high"] += curve.quantile(BAND[2]).tolist()
    return found


def repository(results: dict[tuple[tuple[float, ...], str], mb.Result]) -> str:
    """The one curve of the authors' that is public as a picture."""
    shown = published()["repository_figure"]
    means = tuple(shown["means"])
    rows = [
        [
            NAMES[policy],
            f"≈ {shown['regret'][policy]:g}",
            ending(results[means, WRITTEN], policy),
            ending(results[means, RELEASED], policy),
        ]
        for policy in POLICIES
    ]
    return table(
        ["", "read off", "as written", "as released"],
        rows,
        f"The authors' repository shows a picture of regret at {instance(means)}, "
        f"<code>{shown['file']}</code>. Its last points, read off by eye to about "
        f"{shown['read_to']:g}, beside ours. That the paper's figures were made in the same way as "
        "this picture is an inference.",
    )


def others(lab: Laboratory, instances: list[tuple[float, ...]]) -> str:
    """All policies of the catalogue, as written."""
    slow = [name for name in SLOW if lab.size.slow]
    quick = [name for name in mb.catalogue() if name not in (*SLOW, *LEFT_OUT)]

    def made(names: list[str], means: tuple[float, ...], trials: int, workers: int) -> mb.Result:
        shown = lab.progress if names is quick or means == instances[0] else False
        return lab.simulate(
            names, environment(means, WRITTEN), trials,
            checkpoints=64, quantiles=BAND, workers=workers, progress=shown,
        )  # fmt: skip

    dots, many = [], []
    with ThreadPoolExecutor(lab.workers) as pool:  # few trials of slow ones: instances side by side
        waiting = {m: pool.submit(made, slow, m, lab.size.slow, 1) for m in instances if slow}
    for means in instances:
        result = made(quick, means, lab.size.others, lab.workers)
        curves = list(result.curves.values())
        if slow:
            curves += waiting[means].result().curves.values()
        result = result.with_curves(curves)
        best = min(curves, key=lambda curve: float(curve.regret[-1]))
        name = f"all-{means[0]:g}-{means[1]:g}"
        fewer = f", {lab.size.slow:,} of {', '.join(slow)}" if slow else ""
        link = data(lab.write(f"{name}.csv", columns(result)))
        dots.append(
            picture(
                regret_dots(result),
                f"Regret of {len(curves)} policies at the end, means {instance(means)}; the least "
                f"has {best.label} with {best.regret[-1]:.1f}. The numbers are in the data file.",
                f"<b>All policies, {instance(means)}.</b> Bernoulli rewards, default parameters; "
                f"dot: mean, bar: 95 % of the trials; T = {result.horizon:,}, "
                f"{lab.size.others:,} trials{fewer}, seed {lab.seed}. {link}",
                name,
            )
        )
        many.append(
            picture(
                regret_many(result),
                f"Mean regret of {len(curves)} policies over the rounds, means {instance(means)}.",
                f"<b>All policies over the rounds, {instance(means)}.</b> As above. {link}",
                f"{name}-curves",
            )
        )
    missing = [*LEFT_OUT, *(name for name in SLOW if name not in slow)]
    return (
        "<h3>All other policies</h3>\n"
        + paragraphs(
            "The same two bandits, as written, with every policy of the catalogue at its default "
            f"parameters (left out: {', '.join(missing)}). The order is that of these two bandits "
            "at this horizon. Policies for adversarial rewards, for wider classes of rewards or "
            "for finding the best arm pay for what they guarantee elsewhere."
        )
        + side_by_side(*dots)
        + "<details><summary>The curves of all policies</summary>\n"
        + "".join(many)
        + "</details>\n"
    )
