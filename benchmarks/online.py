"""What one decide + update costs, and the distribution over many arms; best of several runs.

CPU time of one process: what else the machine does at the time counts for little.
"""

import numpy as np
from timing import cpu_seconds

import maillard as mb

RUNS = 15


def best(work, count: int) -> float:
    """Seconds per item, the best of several runs."""
    return min(cpu_seconds(lambda: work(count)) for _ in range(RUNS)) / count


def loop(policy: mb.Policy, rng: np.random.Generator):
    """A run of decisions with their updates."""

    def work(count: int) -> None:
        for _ in range(count):
            policy.update(policy.decide(rng), 1.0)

    return work


def reference(rng: np.random.Generator):
    """The same choice written out in NumPy: what the numbers stand beside."""
    pulls, total = np.ones(10), np.full(10, 0.5)

    def work(count: int) -> None:
        for _ in range(count):
            mean = total / pulls
            weight = np.exp(-pulls * 2.0 * (mean.max() - mean) ** 2)
            p = weight / weight.sum()
            arm = rng.choice(10, p=p)
            pulls[arm] += 1.0
            total[arm] += 1.0

    return work


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    numpy_us = best(reference(rng), 500) * 1e6
    print(f"{'decide + update, 10 arms':28s} {'µs':>8s} {'of NumPy':>9s}")
    print(f"{'MS written in NumPy':28s} {numpy_us:8.2f} {1:9.2f}")
    for name, cls in mb.catalogue().items():
        given = {
            parameter: {"horizon": 100_000, "weights": [1.0] * 10}[parameter]
            for parameter, spec in cls._declared.items()
            if spec.required
        }
        policy = mb.policy(name, 10, **given)
        for _ in range(100):
            policy.update(policy.decide(rng), float(rng.random() < 0.4))
        us = best(loop(policy, rng), 300) * 1e6
        print(f"{name:28s} {us:8.2f} {us / numpy_us:9.2f}")

    print(f"\n{'update + probabilities':28s} {'ms':>8s} {'ns/arm':>9s}")
    for arms in (1_000, 100_000):
        pulls = rng.integers(1, 1_000, arms)
        policy = mb.policy("kl-ms", arms)
        policy.update_counts(pulls, rng.binomial(pulls, 0.3))

        def work(count: int, policy: mb.Policy = policy) -> None:
            for _ in range(count):
                policy.update(0, 1.0)
                policy.probabilities()

        seconds = best(work, 10)
        print(f"{f'kl-ms, {arms:,} arms':28s} {seconds * 1e3:8.3f} {seconds / arms * 1e9:9.2f}")


if __name__ == "__main__":
    main()
