"""What a reader needs: the same logs, evaluated as one would, and Thompson's with exact numbers."""

import math
from typing import Any

import numpy as np

import maillard as mb

from .figures import BLUE, NAMES, RED, quantile_bars
from .laboratory import Laboratory, Study
from .page import data, number, paragraphs, picture, side_by_side, table
from .part import Part, instance
from .protocols import WRITTEN, Array, environment, logger
from .published import published
from .verdicts import LIMIT, larger, largest_share

#: Estimators by what `evaluate` calls them.
WORDS = {
    "dm": "arm means",
    "ipw": "IPW",
    "snipw": "self-normalised IPW",
    "clipped-ipw": "IPW, weights clipped at √T",
    "aipw": "doubly robust",
    "aw-aipw-two-point": "adaptively weighted",
    "stable-variance": "variance-stabilised",
}


def run(lab: Laboratory) -> Part:
    """Both policies' logs as written, with exact probabilities, by every usual estimator."""
    horizon = max(published()["horizons"])
    instances = [tuple(means) for means in published()["instances"]]
    best = advice(lab)
    html = paragraphs(
        "The question behind these experiments is whose logs are worth more: those of KL-MS, whose "
        "probabilities are in closed form, or those of Thompson sampling. Here are the logs of the "
        "protocol as written, T = "
        f"{lab.size.horizons[horizon]:,}, Thompson sampling's with <em>exact</em> probabilities, "
        "and what <code>maillard.evaluate</code> makes of each log by itself. For such a log it "
        f"recommends {called(best.estimator)}, <code>{best.estimator}</code>, with the interval "
        f"<code>{best.interval}</code>.",
    )
    html += side_by_side(*(figure(lab, means, horizon, best) for means in instances))
    for means in instances:
        html += errors(lab, means, horizon, best)
    html += settled(lab, instances, horizon, best)
    return Part("reader", "What a reader needs", html, [])


def called(estimator: str) -> str:
    """An estimator in words, if there are any."""
    return WORDS.get(estimator, estimator)


def advice(lab: Laboratory) -> Any:
    """What `evaluate` recommends for a log of this kind, if it is asked for nothing else."""
    means = tuple(published()["instances"][1])
    log = mb.collect(
        logger("kl-ms", WRITTEN), environment(means, WRITTEN),
        lab.size.horizons[max(lab.size.horizons)], seed=lab.seed, progress=False,
    )  # fmt: skip
    return mb.evaluate(log, "uniform").best


def both(lab: Laboratory, means: tuple[float, ...], horizon: int) -> dict[str, Study]:
    """The logs of the two policies."""
    return {policy: lab.study(policy, means, horizon, WRITTEN) for policy in ("kl-ms", "thompson")}


def figure(lab: Laboratory, means: tuple[float, ...], horizon: int, best: Any) -> str:
    """Spread of the estimates by logger, probabilities and estimator."""
    studies = both(lab, means, horizon)
    few = published()["samples"][0]
    rows: list[tuple[str, str, Array]] = []
    for policy, study in studies.items():
        colour = BLUE if policy == "kl-ms" else RED
        if policy == "thompson":
            rows.append((f"{NAMES[policy]}, IPW, M = {few:,}", colour, study.estimates[f"M={few}"]))
        rows.append((f"{NAMES[policy]}, IPW, exact p", colour, study.estimates["exact"]))
        for name in ("snipw", best.estimator):
            rows.append((f"{NAMES[policy]}, {called(name)}", colour, estimates(study, name)))
    truth = studies["kl-ms"].truth
    finite = np.concatenate([x[np.isfinite(x)] for _, _, x in rows])
    reach = 1.15 * max(abs(q - truth) for q in np.quantile(finite, [0.03, 0.97]))
    name = f"reader-{means[0]:g}-{means[1]:g}"
    link = data(lab.write(f"{name}.parquet", columns(studies)))
    return picture(
        quantile_bars(rows, truth, limits=(truth - reach, truth + reach)),
        f"Median, middle half and middle 90 % of the estimates for means {instance(means)}; the "
        f"truth {truth:g} is a dashed line. The numbers are in the table below.",
        f"<b>Spread of the estimates, {instance(means)}.</b> Dot: median; thick: the middle half; "
        f"thin: 90 %. As written, T = {studies['kl-ms'].horizon:,}, {studies['kl-ms'].trials:,} "
        f"logs of KL-MS, {studies['thompson'].trials:,} of Bernoulli TS (by "
        f"<code>evaluate</code> {evaluated(studies['kl-ms']):,} and "
        f"{evaluated(studies['thompson']):,} of them), seed {lab.seed}; invalid trials left out. "
        f"{link}",
        name,
    )


def estimates(study: Study, estimator: str) -> Array:
    """An estimator's answers; they do not depend on the interval."""
    return next(np.asarray(x[0]) for pair, x in study.evaluated.items() if pair[0] == estimator)


def evaluated(study: Study) -> int:
    """How many logs `evaluate` was shown."""
    return len(next(iter(study.evaluated.values()))[0])


def columns(studies: dict[str, Study]) -> dict[str, list[object]]:
    """What `evaluate` answered, one row for each log and estimator."""
    found: dict[str, list[object]] = {
        "policy": [], "estimator": [], "interval": [], "trial": [], "estimate": [], "low": [],
        "high": [],
    }  # fmt: skip
    for policy, study in studies.items():
        for (estimator, interval), (estimate, low, high) in study.evaluated.items():
            found["policy"] += [policy] * len(estimate)
            found["estimator"] += [estimator] * len(estimate)
            found["interval"] += [interval] * len(estimate)
            found["trial"] += range(len(estimate))
            found["estimate"] += estimate.tolist()
            found["low"] += low.tolist()
            found["high"] += high.tolist()
    return found


def errors(lab: Laboratory, means: tuple[float, ...], horizon: int, best: Any) -> str:
    """Error and coverage of every estimator."""
    rows = []
    for policy, study in both(lab, means, horizon).items():
        for pair, (estimate, low, high) in study.evaluated.items():
            estimator, interval = pair
            covered = float(np.mean((low <= study.truth) & (study.truth <= high)))
            width = f"{float(np.median(high - low)):.4f}"
            mark = " *" if estimator == best.estimator else ""
            rows.append([
                f"{NAMES[policy]}, {called(estimator)}{mark}",
                *summary(estimate - study.truth), interval, f"{100 * covered:.1f} %", width,
                invalid(estimate),
            ])  # fmt: skip
        for samples in published()["samples"] if policy == "thompson" else ():
            error = study.errors(f"M={samples}")
            rows.append([
                f"{NAMES[policy]}, IPW, M = 10<sup>{math.log10(samples):.0f}</sup>",
                *summary(error), "–", "–", "–", invalid(error),
            ])  # fmt: skip
    return table(
        ["", "bias", "root mean squared error", "median |error|", "95 % of |errors| below",
         "95 % interval", "covered", "median width", "invalid"],
        rows,
        f"<b>{instance(means)}.</b> Estimates of the uniform policy's value, by log and estimator; "
        "exact probabilities but for the last three rows. * is what <code>evaluate</code> "
        "recommends. The intervals are those that take no time: the interval kt holds at every "
        "time and whatever the policy, and so is wide; of the others the coverage is what is seen "
        "here. † marks a heavy tail.",
    )  # fmt: skip


def invalid(values: Array) -> str:
    """The share of values that do not exist."""
    return f"{100.0 * float(np.mean(~np.isfinite(values))):.1f} %"


def summary(error: Array) -> list[str]:
    """Bias, root mean squared error, median and 95 % quantile of the absolute error."""
    error = error[np.isfinite(error)]
    if not len(error):
        return ["–"] * 4
    squares = error**2
    root = math.sqrt(float(squares.mean()))
    spread = float(squares.std()) / math.sqrt(len(squares)) / (2.0 * root) if root else 0.0
    heavy = " †" if largest_share(squares) > 1.0 / 3.0 else ""
    bias = f"{number(float(error.mean()), 4)} <small>± {error.std() / math.sqrt(len(error)):.4f}"
    return [
        f"{bias}</small>", f"{root:.4f} <small>± {spread:.4f}</small>{heavy}",
        f"{float(np.median(np.abs(error))):.4f}", f"{float(np.quantile(np.abs(error), 0.95)):.4f}",
    ]  # fmt: skip


def settled(lab: Laboratory, instances: list[tuple[float, ...]], horizon: int, best: Any) -> str:
    """The comparison on its merits, in words that follow from the numbers."""
    items, name = [], called(best.estimator)
    for means in instances:
        studies = both(lab, means, horizon)
        good = {p: estimates(s, best.estimator) - s.truth for p, s in studies.items()}
        plain = {p: s.errors("exact") for p, s in studies.items()}
        root = {p: math.sqrt(float(np.mean(e**2))) for p, e in good.items()}
        ratio = float(np.median(np.abs(plain["kl-ms"])) / np.median(np.abs(good["kl-ms"])))
        items.append(
            f"<li><b>{instance(means)}.</b> By {name}, the root mean squared error is "
            f"{root['kl-ms']:.4f} from KL-MS's logs and {root['thompson']:.4f} from Bernoulli "
            f"TS's: {told(good)}. By IPW with exact probabilities: {told(plain)}. The median error "
            f"of IPW is {ratio:.1f} times that of {name}, on the same logs of KL-MS.</li>\n"
        )
    return (
        "<h3>On its merits</h3>\n<ul>\n" + "".join(items) + "</ul>\n"
        + paragraphs(
            f"(A difference of mean squared errors counts from {LIMIT:g} standard errors; with a "
            "heavy tail even that is uncertain.) With exact probabilities no trial is invalid and "
            "nothing is biased by estimated ones, for either policy. What then decides is how "
            "often the log holds the inferior arm, which is regret by another name, and how the "
            "log is evaluated. For arms without a context the means of the arms are all that a log "
            "says of them, and need no probabilities; where a context or a policy of another kind "
            "makes weights unavoidable, they must be exact, and bounded by a floor in the logger.",
            "Closed forms buy simplicity and speed at the decision. Thompson sampling's "
            "probabilities are within reach as well, at the price that is timed above.",
        )
    )  # fmt: skip


def told(errors: dict[str, Array]) -> str:
    """Which error is smaller, if that can be told."""
    outcome = larger(errors["thompson"] ** 2, errors["kl-ms"] ** 2)
    return {
        "agrees": "KL-MS's is smaller",
        "differs": "Bernoulli TS's is smaller",
        "open": "so many logs do not tell them apart",
    }[outcome]
