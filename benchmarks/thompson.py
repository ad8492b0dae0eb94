"""What the exact probabilities of Thompson sampling cost, beside 1,000 draws of Monte Carlo.

Both are timed in the same run, in CPU time, best of many, for Beta posteriors. The Monte Carlo
estimate is one call of NumPy's sampler; it is wrong by 3 % where an arm has one half, and says 0
where an arm has less than 1/1000.
"""

import numpy as np
from timing import cpu_seconds

from maillard.compiled import build
from maillard.policies.quadrature import BETA, SIGNATURE, argmax_probabilities

SAMPLES = 1_000


def states(arms: int, rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pulls and means of typical and of hard moments in a run."""
    spread = rng.uniform(0.3, 0.7, arms)
    return {
        "a few pulls each": (rng.integers(1, 10, arms) * 1.0, spread),
        "100 pulls each": (np.full(arms, 100.0), spread),
        "equal arms, 1,000 pulls each": (np.full(arms, 1000.0), np.full(arms, 0.5)),
        "one leader of 10,000 pulls": (
            np.where(np.arange(arms) == 0, 10_000.0, 60.0),
            np.where(np.arange(arms) == 0, 0.9, spread),
        ),
        "pulls from 1 to 1,000,000": (np.geomspace(1.0, 1e6, arms), np.full(arms, 0.5)),
    }


def microseconds(work, runs: int, calls: int) -> float:
    """CPU time of one call: the best of several runs of so many calls."""

    def run() -> None:
        for _ in range(calls):
            work()

    return min(cpu_seconds(run) for _ in range(runs)) / calls * 1e6


def main() -> None:
    sweep = build(argmax_probabilities, SIGNATURE)
    rng = np.random.default_rng(0)
    print(f"{'arms':>4}  {'state':<30}{'exact':>10}{'sampled':>11}{'ratio':>8}   smallest P")
    for arms in (2, 10, 50):
        for name, (pulls, means) in states(arms, rng).items():
            successes = np.round(pulls * means)
            posterior = np.array([successes + 0.5, pulls - successes + 0.5])
            alphas, betas = posterior
            out = np.empty(arms)

            def exact(posterior=posterior, out=out):
                sweep(BETA, posterior, -1, out)

            def sampled(alphas=alphas, betas=betas, arms=arms):
                best = rng.beta(alphas, betas, size=(SAMPLES, arms)).argmax(axis=1)
                return np.bincount(best, minlength=arms) / SAMPLES

            ours, theirs = microseconds(exact, 100, 20), microseconds(sampled, 50, 4)
            print(
                f"{arms:>4}  {name:<30}{ours:>7.1f} µs{theirs:>8.0f} µs{theirs / ours:>8.1f}"
                f"   {out.min():.1e}"
            )


if __name__ == "__main__":
    main()
