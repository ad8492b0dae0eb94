"""A hundred random instances on any executor: how often which policy has the least regret.

    python examples/sweep.py
    python examples/sweep.py --executor processes
    python examples/sweep.py --executor dask                  # a cluster on this machine
    python examples/sweep.py --executor dask --address tcp://scheduler:8786

The numbers do not depend on the executor by a bit.
"""

import argparse
import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

import maillard as mb

POLICIES = ["kl-ms", "ms", "thompson:prior=1,1", "moss", "ucb1"]
#: Instances that an executor works on at the same time.
AT_ONCE = 16


def instances(count: int, arms: int, seed: int) -> list[mb.Bernoulli]:
    """Bernoulli bandits with means drawn uniformly."""
    rng = np.random.default_rng(seed)
    return [mb.Bernoulli(rng.random(arms)) for _ in range(count)]


@contextlib.contextmanager
def executor(name: str, address: str | None) -> Iterator[Executor | None]:
    """Something to run on; None is simulate's own threads."""
    if name == "dask":
        from distributed import Client

        with Client(address) if address else Client(dashboard_address=None) as client:
            yield client.get_executor()
    elif name == "processes":
        with ProcessPoolExecutor() as pool:
            yield pool
    elif name == "threads":
        with ThreadPoolExecutor() as pool:
            yield pool
    else:
        yield None


def sweep(worlds: list[mb.Bernoulli], horizon: int, trials: int, pool: Any) -> np.ndarray:
    """Mean regret after the horizon: [instance, policy]."""

    def regret(i: int) -> list[float]:
        result = mb.simulate(
            POLICIES, worlds[i], horizon, trials, seed=i, checkpoints=[horizon],
            executor=pool, progress=False,
        )  # fmt: skip
        return [curve.regret[-1] for curve in result.curves.values()]

    if pool is None:  # all cores are busy with one instance
        return np.array([regret(i) for i in range(len(worlds))])
    # A cluster is not: so many instances are under way at once, each waited for by a thread.
    with ThreadPoolExecutor(AT_ONCE) as waiting:
        return np.array(list(waiting.map(regret, range(len(worlds)))))


def table(regret: np.ndarray) -> str:
    """For each policy: mean, median and worst regret, and on how many instances it is best."""
    lines = [f"{'policy':20}{'mean':>10}{'median':>10}{'worst':>10}{'best on':>10}"]
    wins = np.bincount(regret.argmin(axis=1), minlength=len(POLICIES))
    for i, name in enumerate(POLICIES):
        x = regret[:, i]
        lines.append(f"{name:20}{x.mean():10.2f}{np.median(x):10.2f}{x.max():10.2f}{wins[i]:10d}")
    return "\n".join(lines)


def main() -> None:
    """Run the sweep that the options describe, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ["own", "threads", "processes", "dask"]
    parser.add_argument("--executor", choices=kinds, default="own")
    parser.add_argument("--address", help="of a Dask scheduler; without it, one is started here")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=1_000)
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    worlds = instances(given.instances, given.arms, given.seed)
    with executor(given.executor, given.address) as pool:
        regret = sweep(worlds, given.horizon, given.trials, pool)
    size = f"{len(worlds)} instances, {given.arms} arms, {given.horizon:,} rounds"
    print(f"{size}, {given.trials} trials each\n{table(regret)}")


if __name__ == "__main__":
    main()
