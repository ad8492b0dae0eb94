"""Tasks of `coverage_of_intervals.py`: confidence sequences, along the rounds and at the end."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from coverage_logs import (
    ALPHA,
    MONTE_CARLO,
    Cell,
    Evaluator,
    Found,
    Run,
    runs_of,
    tallied,
    targets_of,
)

from maillard.evaluation import sequences
from maillard.evaluation.sequences import DoublyRobustBetting, HedgedBetting


def bets_task(cell: Cell, logs: int) -> Found:
    """Coverage and width of the betting sequences at the horizon."""
    kinds = (HedgedBetting, DoublyRobustBetting)
    # Arm means do not use propensities: those of exact ones will do.
    estimators = ("aipw",) if cell.policy == MONTE_CARLO else ("dm", "aipw")
    return tallied(cell, logs, kinds, estimators)


def ever_task(cell: Cell, logs: int) -> Found:
    """How often the anytime-valid sequences have ever missed, and how often at the end."""
    targets = targets_of(2)
    evaluators = {name: Evaluator(cell.horizon, weights) for name, weights in targets.items()}
    ever: dict[str, dict[str, list[int]]] = {name: {} for name in targets}
    for log in runs_of(cell, logs):
        for name, weights in targets.items():
            for kind, missed in sequences_against(log, weights, cell.means, evaluators[name]):
                counts = ever[name].setdefault(kind, [0, 0])
                counts[0] += bool(missed.any())
                counts[1] += bool(missed[-1])
    return {
        name: {kind: [first / logs, last / logs, logs] for kind, (first, last) in found.items()}
        for name, found in ever.items()
    }


def sequences_against(
    log: Run, weights: np.ndarray, means: Sequence[float], evaluator: Evaluator
) -> Iterator[tuple[str, np.ndarray]]:
    """For each sequence and round, whether it has the truth refuted there.

    Those of arm means are for all arms that the target wants together, at α/K each: that one of
    them misses is the event which the promise is about; the target's interval misses less often.
    """
    used = np.flatnonzero(weights)
    alpha = ALPHA / len(used)
    rounds = len(log)
    kt, betting = np.zeros(rounds, dtype=bool), np.zeros(rounds, dtype=bool)
    for a in used:
        positions = np.flatnonzero(log._arm == a)
        x = log._reward[positions]
        kt |= _held(kt_refutes(x, means[a], alpha), positions, rounds)
        betting |= _held(hedge_refutes(x, means[a], alpha), positions, rounds)
    yield "dm kt", kt
    yield "dm betting", betting
    yield "aipw dr-betting", robust_refutes(log, float(weights @ np.array(means)), evaluator)


def _held(refuted: np.ndarray, positions: np.ndarray, rounds: int) -> np.ndarray:
    """What holds after each pull of an arm, in every round from there to its next pull."""
    held = np.zeros(rounds, dtype=bool)
    ends = np.append(positions[1:], rounds)
    for start, end in zip(positions[refuted], ends[refuted]):
        held[start:end] = True
    return held


def kt_refutes(x: np.ndarray, mean: float, alpha: float) -> np.ndarray:
    """Whether the mixture's likelihood ratio against `mean` is 1/α or more, after each reward."""
    from scipy.special import betaln

    n, s = np.arange(1.0, len(x) + 1.0), np.cumsum(x)
    mixture = betaln(s + 0.5, n - s + 0.5) - math.log(math.pi)
    return mixture - s * math.log(mean) - (n - s) * math.log1p(-mean) >= math.log(1.0 / alpha)


def hedge_refutes(x: np.ndarray, mean: float, alpha: float) -> np.ndarray:
    """The same for `hedged_interval`: whether either gambler has 2/α times his capital."""
    t = np.arange(1.0, len(x) + 1.0)
    running = (0.5 + np.cumsum(x)) / (t + 1.0)
    variance = (0.25 + np.cumsum((x - running) ** 2)) / (t + 1.0)
    before = np.concatenate([[0.25], variance[:-1]])
    bet = np.sqrt(2.0 * math.log(2.0 / alpha) / (before * t * np.log1p(t)))
    above = np.cumsum(np.log1p(np.minimum(bet, 0.5 / mean) * (x - mean)))
    below = np.cumsum(np.log1p(-np.minimum(bet, 0.5 / (1.0 - mean)) * (x - mean)))
    return np.maximum(above, below) >= math.log(2.0 / alpha)


def robust_refutes(log: Run, value: float, evaluator: Evaluator) -> np.ndarray:
    """The same for the doubly robust betting sequence, two one-sided ones at α/2 each."""
    rows = evaluator.rows_of(log)
    goal = math.log(len(sequences._CEILINGS) * len(sequences._SHARES) / (ALPHA / 2.0))
    terms = np.array(
        [sequences.pseudo_outcomes(rows, (0.0, 1.0), k) for k in sequences._CEILINGS]
    )  # [ceiling, side, row]
    if rows.impossible is not None:  # such rows are left out: no bet, and nothing happens
        terms = terms[:, :, ~rows.impossible]
    count = terms.shape[2]
    if count == 0:
        return np.zeros(1, dtype=bool)
    refuted = np.zeros(count, dtype=bool)
    logs = np.empty((len(sequences._CEILINGS), len(sequences._SHARES), count))
    for side, nu in enumerate((value, 1.0 - value)):
        for k, phi, mine in zip(sequences._CEILINGS, terms[:, side], logs):
            stakes = np.minimum(phi + k, sequences._HIGHEST) / (nu + k)
            for share, log_capital in zip(sequences._SHARES, mine):
                np.multiply(stakes, share, out=log_capital)
                log_capital += 1.0 - share
                np.log(log_capital, out=log_capital)
                np.cumsum(log_capital, out=log_capital)
        # Were all gamblers at their best at once, would it be enough? Mostly not.
        if np.logaddexp.reduce(logs.max(axis=2), axis=None) >= goal:
            refuted |= np.exp(np.minimum(logs, 300.0)).sum(axis=(0, 1)) >= math.exp(goal)
    return refuted
