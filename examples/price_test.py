"""A price test: profit lies between a loss and a margin, and one may stop whenever it is clear.

    python examples/price_test.py

The reward of an offer is what it earned: the margin if it sold, a loss if it came back, nothing
otherwise. Such rewards lie in [L, U] and are neither 0 nor 1, so the range is given to the policy.
"""

import argparse

import numpy as np
import pyarrow as pa

import maillard as mb

COST, RETURN = 12.0, 5.0
#: Price → how likely a sale is, and how likely a sale comes back. Unknown in a real test.
BUYERS = {19: (0.52, 0.05), 24: (0.50, 0.06), 29: (0.24, 0.10)}
#: The least and the most that an offer can earn.
RANGE = (-RETURN, max(BUYERS) - COST)


def profit(price: int, rng: np.random.Generator) -> float:
    """What one visitor brings at this price."""
    sale, comes_back = BUYERS[price]
    if rng.random() >= sale:
        return 0.0
    return -RETURN if rng.random() < comes_back else price - COST


def main() -> None:
    """Look every thousand visitors whether one price is certainly the best."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visitors", type=int, default=20_000, help="at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    rng = np.random.default_rng(given.seed)
    policy = mb.policy("kl-ms", arms=list(BUYERS), rewards=RANGE, floor=0.2)
    rows: list[dict[str, float]] = []
    for visitor in range(1, given.visitors + 1):
        decision = policy.decide(rng)
        earned = profit(decision.arm, rng)
        policy.update(decision, earned)
        rows.append({"arm": decision.arm, "propensity": decision.propensity, "reward": earned})
        if visitor % 1_000:
            continue
        # The intervals hold at every time at once: looking often costs nothing.
        log = mb.Log.read(pa.Table.from_pylist(rows), arms=list(BUYERS))
        bounds = mb.evaluate(log, rewards=RANGE, estimators="dm").arm_bounds
        left = [price for price, can_be in zip(BUYERS, bounds.best_arms) if can_be]
        print(f"{visitor:6,} visitors: the best price may be {', '.join(map(str, left))}")
        if len(left) == 1:
            break
    for price, low, high, pulls in zip(BUYERS, bounds.low, bounds.high, policy.pulls):
        sale, comes_back = BUYERS[price]
        truth = sale * ((1 - comes_back) * (price - COST) - comes_back * RETURN)
        print(f"price {price}: offered {pulls:6,.0f} times, "
              f"profit in [{low:.2f}, {high:.2f}], truly {truth:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
