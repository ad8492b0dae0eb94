"""An ad experiment: clicks come days late, ads come and go, and the log answers questions later.

    python examples/ad_experiment.py
    python examples/ad_experiment.py --out ads.parquet        # keeps the log

Every decision is made by the policy as it stands, with the clicks that are in by then; its exact
propensity goes into the log, whatever was eligible that day.
"""

import argparse
import json
from collections import defaultdict

import numpy as np
import pyarrow as pa

import maillard as mb

#: How often each ad is clicked. Nobody knows this in a real experiment.
CLICKS = {"holiday": 0.040, "discount": 0.060, "story": 0.030, "video": 0.075}


def experiment(days: int, visitors: int, seed: int) -> pa.Table:
    """So many days of so many visitors; a row for each visitor."""
    rng = np.random.default_rng(seed)
    # kl-ms-kt keeps every probability above zero; the floor keeps it above 0.05/K.
    policy = mb.policy("kl-ms-kt", arms=["holiday", "discount", "story"], floor=0.05)
    rows: list[dict[str, object]] = []
    arriving = defaultdict(list)  # day → decisions whose outcome will be known then
    for day in range(days):
        if day == days // 3:
            policy.add_arm("video")  # a new ad: it is shown next, then on its merits
        if day == 2 * days // 3:
            policy.retire_arm("story")
        for decision, clicked in arriving.pop(day, []):
            if decision.arm in policy.arms:  # a click on a retired ad teaches nothing any more
                policy.update(decision, clicked)
        # The discount is not offered at weekends.
        weekend = day % 7 >= 5
        eligible = [ad for ad in policy.arms if not (weekend and ad == "discount")]
        for _ in range(visitors):
            decision = policy.decide(rng, eligible=eligible)
            clicked = float(rng.random() < CLICKS[decision.arm])
            rows.append({
                "round": len(rows) + 1, "day": day, "arm": decision.arm,
                "propensity": decision.propensity, "log_propensity": decision.log_propensity,
                "reward": clicked,
            })  # fmt: skip
            arriving[day + int(rng.geometric(0.5))].append((decision, clicked))
        # Overnight the policy is a line of JSON; in the morning it goes on with the same bits.
        policy = mb.from_state(json.loads(json.dumps(policy.state())))
    return pa.Table.from_pylist(rows)


def main() -> None:
    """Run the experiment and ask the log what showing one ad only would have earned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--visitors", type=int, default=400, help="a day")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="write the log there: .parquet, .csv, .dsjson")
    given = parser.parse_args()
    log = mb.Log.read(experiment(given.days, given.visitors, given.seed), arms=list(CLICKS))
    if given.out:
        log.write(given.out)

    print(f"{log.rows:,} visitors, click rate {np.mean(log.to_arrow()['reward']):.4f}")
    for ad, truth in CLICKS.items():
        best = mb.evaluate(log, target={ad: 1.0}, rewards=(0, 1)).best
        print(f"{ad:10} {best.estimate:.4f} in [{best.low:.4f}, {best.high:.4f}], truly {truth}")
    gain = mb.evaluate(log, {"video": 1.0}, versus={"holiday": 1.0}, rewards=(0, 1)).best
    print(f"video − holiday: {gain.estimate:.4f} in [{gain.low:.4f}, {gain.high:.4f}]")
    print(f"how far to trust that: {gain.verdict}")


if __name__ == "__main__":
    main()
