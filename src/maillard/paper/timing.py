"""The timing claim: how much longer a log takes when probabilities are estimated by draws."""

import statistics
import time
from collections.abc import Callable

import numpy as np

import maillard as mb

from .laboratory import Laboratory
from .page import badge, paragraphs, table, text, timing
from .part import Part
from .published import published
from .verdicts import NOT, REPRODUCES, Finding

MEANS = (0.8, 0.9)
#: Ratios of times on other machines and in other code agree to a factor at best.
FACTOR = 3.0


def run(lab: Laboratory) -> Part:
    """Write logs of the paper's length, one round after another, and take the time."""
    printed = published()["timing"]
    horizon, samples = lab.size.horizons[printed["horizon"]], printed["samples"]
    seconds = {name: float(text) for name, text in printed["seconds"].items()}
    ratio = seconds["thompson"] / seconds["kl-ms"]
    ways: dict[str, Callable[[], None]] = {
        "KL-MS, closed form": lambda: online("kl-ms", horizon, lab.seed),
        f"Bernoulli TS, M = {samples:,} draws": lambda: drawn(horizon, samples, lab.seed),
        "Bernoulli TS, exact by quadrature": lambda: online("thompson", horizon, lab.seed),
    }
    taken = {name: median(work, lab.size.repeats) for name, work in ways.items()}
    first, draws, exact = taken.values()
    measured = draws / first
    within = ratio / FACTOR <= measured <= ratio * FACTOR
    finding = Finding(
        "Timing",
        f"Bernoulli TS with M = {samples:,} takes {ratio:.0f} times as long as KL-MS",
        f"{ratio:.1f}",
        None,
        None,
        REPRODUCES if within else NOT,
    )
    lab.write("timing.csv", {"what": list(taken), "seconds": list(taken.values())})
    rows = [
        [text(name), timing(f"{1e3 * t:.1f} ms"), timing(f"{1e6 * t / horizon:.1f} µs"),
         timing(f"{t / first:.1f}")]
        for name, t in taken.items()
    ]  # fmt: skip
    html = (
        paragraphs(
            f"The paper reports {seconds['kl-ms']:g} s for KL-MS and {seconds['thompson']:g} s for "
            f"Bernoulli TS with M = {samples:,}, each to write one log of T = "
            f"{printed['horizon']:,} rounds: a ratio of {ratio:.1f}. We time the same work, one "
            "round after another in Python, the draws by NumPy. Seconds depend on machine and "
            f"code, and so does their ratio; it counts as reproduced within a factor of {FACTOR:g}."
        )
        + table(
            ["one log", "time", "a round", "times KL-MS"],
            rows,
            f"T = {horizon:,}; the median of {lab.size.repeats} repetitions. "
            '<a class="data" href="data/timing.csv">data</a>',
        )
        + f"<p>Measured ratio: {timing(f'{measured:.1f}')}, printed {ratio:.1f}: "
        f'<span class="timing">{badge(finding.verdict)}</span></p>\n'
        + paragraphs(
            "The comparison leaves out a third way. Thompson sampling's probability is a "
            "one-dimensional integral of a smooth function, and quadrature gives it to twelve "
            f"digits in {timing(f'{1e6 * exact / horizon:.0f} µs')} a round, all else included, "
            f"where {samples:,} draws take {timing(f'{1e6 * draws / horizon:.0f} µs')} and leave a "
            "relative error of 3 % at p = 1/2, of 100 % at p = 0.001, and nothing below."
        )
    )
    return Part("timing", "Timing", html, [finding])


def median(work: Callable[[], None], repeats: int) -> float:
    """Seconds; once more first, so that nothing is compiled while it is timed."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def online(name: str, horizon: int, seed: int) -> None:
    """A log of a policy that knows its probabilities."""
    rng = np.random.default_rng(seed)
    policy = mb.policy(name, arms=2)
    log = []
    for _ in range(horizon):
        decision = policy.decide(rng)
        reward = float(rng.random() < MEANS[decision.arm])
        policy.update(decision, reward)
        log.append((decision.arm, decision.propensity, reward))


def drawn(horizon: int, samples: int, seed: int) -> None:
    """A log of Thompson sampling whose probabilities are shares of posterior draws."""
    rng = np.random.default_rng(seed)
    alpha, beta = np.full(2, 0.5), np.full(2, 0.5)
    log = []
    for _ in range(horizon):
        arm = int(np.argmax(rng.beta(alpha, beta)))
        winners = np.argmax(rng.beta(alpha, beta, size=(samples, 2)), axis=1)
        share = float(np.mean(winners == arm))
        reward = float(rng.random() < MEANS[arm])
        alpha[arm] += reward
        beta[arm] += 1.0 - reward
        log.append((arm, share, reward))
