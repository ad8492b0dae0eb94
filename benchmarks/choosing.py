"""Mean regret of the whole catalogue in a few worlds, for docs/choosing.md.

    python benchmarks/choosing.py --measure [--only POLICY …]     what `choosing.json` lacks; long
    python benchmarks/choosing.py --draw                          the table of the page

Ten thousand rounds of each world in `WORLDS`, parameters as they come; policies that want a horizon
are told it.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from timing import number, say, table

import maillard as mb
from maillard.files import replacing

RESULTS = Path(__file__).with_suffix(".json")
HORIZON, TRIALS, SEED = 10_000, 256, 3
#: Policies that look at every distinct reward get fewer trials where these are more than two; so
#: does top-two Thompson sampling, whose probabilities are an integral in every round.
HEAVY, HEAVY_TRIALS = ("med", "imed", "dmed", "empirical-kl-ucb", "npts"), 16
#: What is not left as it comes.
OPTIONS: dict[str, Any] = {"kl-ucb-switch": ("kl-ucb-switch", {"horizon": HORIZON})}
#: No choice for a bandit, or for rewards of another kind.
LEFT_OUT = ("fixed", "exp-kl-ms")

COINS = [round(0.1 * arm, 1) for arm in range(1, 10)] + [0.95]
CLICKS = [0.01, 0.012, 0.014, 0.016, 0.018, 0.02, 0.022, 0.024, 0.026, 0.03]
WORLDS: dict[str, Any] = {
    "two coins": mb.Bernoulli([0.8, 0.9]),
    "ten coins": mb.Bernoulli(COINS),
    "clicks": mb.Bernoulli(CLICKS),
    "narrow": mb.Categorical(
        [0.3, 0.4, 0.5, 0.6, 0.7],
        [
            [math.comb(4, k) * q**k * (1.0 - q) ** (4 - k) for k in range(5)]
            for q in (0.3, 0.35, 0.4, 0.45, 0.5)
        ],
    ),
    "late": mb.Delayed(mb.Bernoulli([0.8, 0.9]), rounds=500),
    "batches": mb.Batched(mb.Bernoulli([0.8, 0.9]), size=500),
    "turn": mb.Piecewise([mb.Bernoulli([0.4, 0.6]), mb.Bernoulli([0.6, 0.4])], changes=[5_001]),
}

Entries = dict[str, dict[str, Any]]


def policies() -> list[str]:
    """All that are compared."""
    return [name for name in mb.catalogue() if name not in LEFT_OUT]


def measure(only: list[str]) -> None:
    """Mean regret with its standard error, written down as it comes."""
    entries = load()
    for slug in only:
        for name, world in WORLDS.items():
            if f"{slug} in {name}" in entries:
                continue
            heavy = slug == "top-two-thompson" or (slug in HEAVY and name == "narrow")
            trials = HEAVY_TRIALS if heavy else TRIALS
            policy = OPTIONS.get(slug, slug)
            result = mb.simulate(policy, world, HORIZON, trials, SEED, checkpoints=2,
                                 progress=False)  # fmt: skip
            (curve,) = result.curves.values()
            entries[f"{slug} in {name}"] = {
                "regret": float(curve.regret[-1]),
                "error": float(curve.error[-1]),
                "trials": trials,
            }
            say(f"{slug} in {name}: {entries[f'{slug} in {name}']}")
        with replacing(RESULTS) as beside:
            names = [f"{slug} in {name}" for slug in policies() for name in WORLDS]
            kept = {name: entries[name] for name in names if name in entries}
            beside.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def load() -> Entries:
    """What has been measured."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def regret_table(entries: Entries) -> str:
    """A row for each policy, those that lose least in the mean of the ranks first."""
    slugs = [slug for slug in policies() if all(f"{slug} in {name}" in entries for name in WORLDS)]
    values = np.array([[entries[f"{slug} in {name}"]["regret"] for name in WORLDS]
                       for slug in slugs])  # fmt: skip
    ranks = values.argsort(axis=0).argsort(axis=0).mean(axis=1)
    rows = [
        [f"`{slugs[i]}`", *(number(value) for value in values[i])]
        for i in np.argsort(ranks, kind="stable")
    ]
    return table(["policy", *WORLDS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure regret of all policies in a few worlds.")
    parser.add_argument("--measure", action="store_true", help="simulate")
    parser.add_argument(
        "--only", nargs="+", choices=policies(), default=policies(), metavar="POLICY"
    )
    parser.add_argument("--draw", action="store_true", help="print the table")
    options = parser.parse_args()
    if options.measure:
        measure(options.only)
    if options.draw:
        print(regret_table(load()))


if __name__ == "__main__":
    main()
