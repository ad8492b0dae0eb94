"""Three policies learn side by side, and show the probability of every arm as they go."""

import numpy as np
from rich.console import Console
from rich.table import Table

import maillard as mb

MEANS = {"red": 0.20, "green": 0.25, "blue": 0.35}
POLICIES = ("kl-ms", "thompson", "kl-ucb")
SHOWN = (0, 3, 10, 30, 100, 300, 1_000, 3_000)


def bar(p: float, width: int = 12) -> str:
    """A probability as a bar with an eighth of a cell's resolution."""
    eighths = round(p * width * 8)
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).ljust(width)[:width]


def main() -> None:
    """Run the three experiments and print what each policy knows at a few rounds."""
    console = Console()
    console.print(
        "[bold]Three arms, three policies, and at every moment the exact probability of each arm."
        f"[/bold]\nTrue means: {', '.join(f'{a} {m}' for a, m in MEANS.items())}.\n"
    )
    for name in POLICIES:
        policy = mb.policy(name, arms=list(MEANS))
        choices, rewards = (np.random.default_rng(seed) for seed in (1, 2))
        table = Table(title=f"{name}", title_justify="left", title_style="bold cyan")
        table.add_column("rewards seen", justify="right")
        for arm in MEANS:
            table.add_column(f"P({arm})", no_wrap=True)
        table.add_column("pulls", justify="right")
        table.add_column("regret", justify="right")
        regret = 0.0
        for seen in range(max(SHOWN) + 1):
            if seen in SHOWN:
                cells = [f"{p:9.2e} {bar(p)}" for p in policy.probabilities()]
                pulls = " ".join(f"{n:.0f}" for n in policy.pulls)
                table.add_row(f"{seen:,}", *cells, pulls, f"{regret:.1f}")
            decision = policy.decide(choices)
            mean = MEANS[decision.arm]
            policy.update(decision, float(rewards.random() < mean))
            regret += max(MEANS.values()) - mean
        console.print(table)
    console.print(
        "Every probability above is exact, Thompson sampling's included: log it with the choice,\n"
        "and the log can later say what another policy would have earned. KL-UCB is\n"
        "deterministic: its zeros are why its logs cannot."
    )


if __name__ == "__main__":
    main()
