"""Evaluate a log in the layout of the Open Bandit Dataset: what would showing at random earn?

    python examples/open_bandit.py                     # a look-alike, written here
    python examples/open_bandit.py --download          # the sample that the package obp ships
    python examples/open_bandit.py LOGGED.csv RANDOM.csv

The dataset (Saito, Aihara, Matsutani and Narita 2021) has two logs of the same shop: one of a
learning policy, Bernoulli Thompson sampling, and one of items shown uniformly at random. So the
estimate of "uniform" from the first can be held against what the second really earned.
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import maillard as mb

ITEMS, ROWS = 20, 10_000
SAMPLE = "obp/dataset/obd/{}/all/all.csv"


def look_alike(folder: Path, seed: int) -> tuple[Path, Path]:
    """Two logs as the dataset has them: items, positions, few clicks."""
    rng = np.random.default_rng(seed)
    clicks = rng.beta(2.0, 300.0, ITEMS)
    paths = []
    for name in ("thompson", "uniform"):
        policy = mb.policy(name, arms=ITEMS, initial="shuffled")
        rows = []
        for _ in range(ROWS // 500):
            # The shop's policy learns in batches: one distribution for 500 visits.
            batch = policy.decide(rng, size=500)
            rewards = (rng.random(500) < clicks[np.array(batch.arm)]).astype(float)
            policy.update(batch, rewards)
            rows += [
                {"arm": arm, "propensity": p, "reward": r, "position": int(rng.integers(1, 4))}
                for arm, p, r in zip(batch.arm, batch.propensity.tolist(), rewards.tolist())
            ]
        paths.append(folder / f"{name}.csv")
        log = mb.Log.read(pa.Table.from_pylist(rows), arms=ITEMS)
        log.write(paths[-1], format="open-bandit")
    return paths[0], paths[1]


def download(folder: Path) -> tuple[Path, Path]:
    """The sample in the wheel of the package obp, fetched from the package index."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*words, "--only-binary", ":all:", "obp"], check=True)
    with zipfile.ZipFile(next(folder.glob("obp-*.whl"))) as wheel:
        for policy in ("bts", "random"):
            wheel.extract(SAMPLE.format(policy), folder)
    return folder / SAMPLE.format("bts"), folder / SAMPLE.format("random")


def main() -> None:
    """Read both logs, evaluate the first, compare with the second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="*", type=Path, metavar="CSV", help="a log, and a random one")
    parser.add_argument("--download", action="store_true", help="use the sample of the package obp")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if len(given.logs) not in (0, 2):
        parser.error("give two logs, or none")
    with tempfile.TemporaryDirectory() as folder:
        if given.logs:
            logged, random = given.logs
        elif given.download:
            logged, random = download(Path(folder))
        else:
            logged, random = look_alike(Path(folder), given.seed)
        log = mb.Log.read(logged, format="open-bandit")
        print(log.describe())
        evaluation = mb.evaluate(log, target="uniform", rewards=(0, 1))
        print(f"\n{evaluation}\n")
        truth = mb.Log.read(random, format="open-bandit").to_arrow()["reward"].to_numpy()
        error = truth.std() / np.sqrt(len(truth))
        print(f"shown at random, the shop really earned {truth.mean():.4f} ± {error:.4f} a visit")


if __name__ == "__main__":
    main()
