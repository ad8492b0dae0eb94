"""The README's figure: what Monte Carlo probabilities do to a log, and exact ones do not.

    python docs/propensities.py [--runs 200] [--out docs/propensities.png]

Thompson sampling on two Bernoulli arms of means 0.8 and 0.9. Each choice is logged twice: with its
exact probability, and with that probability as it is usually estimated, from 1,000 posterior
samples. The share of 1,000 samples in which an arm wins is Binomial(1,000, p)/1,000, and is drawn
as that.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import maillard as mb
from maillard.plots import new_figure, write

MEANS, HORIZON, SAMPLES = (0.8, 0.9), 10_000, 1_000
EXACT, MONTE_CARLO = "#0072B2", "#D55E00"


def worse_arm(axes: Any, arm: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> None:
    """The probability of the worse arm in one experiment."""
    exact = np.where(arm == 0, p, 1.0 - p)
    rounds = np.unique(np.geomspace(3, HORIZON, 400).astype(int)) - 1
    estimated = rng.binomial(SAMPLES, exact[rounds]) / SAMPLES
    floor = 3e-5
    axes.plot(rounds + 1, exact[rounds], color=EXACT, linewidth=1.8, label="exact")
    some = estimated > 0
    axes.plot(rounds[some] + 1, estimated[some], ".", color=MONTE_CARLO, markersize=4,
              label=f"from {SAMPLES:,} samples")  # fmt: skip
    axes.plot(rounds[~some] + 1, np.full((~some).sum(), floor), "x", color=MONTE_CARLO,
              markersize=5, label="estimated as 0", clip_on=False)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(3, HORIZON), ylim=(floor, 1.0))
    axes.set_xlabel("round")
    axes.set_title("Probability of the worse arm, one experiment", loc="left", fontsize=10)
    axes.legend(loc="lower left", frameon=False, fontsize=9)


def estimates(arm: np.ndarray, run: np.ndarray, p: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Of each run, the importance-weighted value of pulling both arms equally often."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0.0, 0.5 / p, np.inf) * reward
        # A reward of 0 under an infinite weight is no estimate either.
        terms[p == 0.0] = np.inf
        return np.bincount(run, terms) / HORIZON


def histogram(axes: Any, exact: np.ndarray, estimated: np.ndarray) -> None:
    """The estimates of all runs; what has no estimate is a bar by itself."""
    truth = sum(MEANS) / 2
    bins = np.linspace(0.4, 1.4, 26)
    beyond = 1.5
    for values, colour, label, style in (
        (exact, EXACT, "exact probabilities", {"alpha": 0.55}),
        (estimated, MONTE_CARLO, f"from {SAMPLES:,} samples",
         {"histtype": "step", "linewidth": 1.8}),
    ):  # fmt: skip
        finite = values[np.isfinite(values)]
        axes.hist(np.clip(finite, bins[0], bins[-1]), bins, color=colour, label=label, **style)
    lost = int((~np.isfinite(estimated)).sum())
    axes.bar(beyond, lost, 0.06, color=MONTE_CARLO)
    axes.annotate(f"none: {lost} of\n{len(estimated)} logs", (beyond - 0.05, lost), fontsize=9,
                  va="top", ha="right", color=MONTE_CARLO)  # fmt: skip
    axes.axvline(truth, ymax=0.75, color="#333333", linewidth=1, linestyle=(0, (4, 2)))
    axes.set_xlabel(f"estimate from one log (truth {truth:g})")
    axes.set_title(f"Value of the uniform policy, {len(exact)} logs", loc="left", fontsize=10)
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def main() -> None:
    """Simulate, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "propensities.png")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    log = mb.collect("thompson", mb.Bernoulli(list(MEANS)), HORIZON, given.runs, seed=1).to_arrow()
    run, arm, p, reward = (log[name].to_numpy() for name in ("run", "arm", "propensity", "reward"))
    sampled = rng.binomial(SAMPLES, p) / SAMPLES
    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2)
    worse_arm(left, arm[:HORIZON], p[:HORIZON], rng)
    histogram(right, estimates(arm, run, p, reward), estimates(arm, run, sampled, reward))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    write(figure, given.out)


if __name__ == "__main__":
    main()
