"""Write the documentation into `site/`: a page for each policy, from the catalogue's own text."""

from pathlib import Path

import maillard as mb
from maillard.policies.catalogue import page

SITE = Path(__file__).parent.parent / "site"


def main() -> None:
    """Build every page anew."""
    folder = SITE / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    index = ["# Policies", "", "| policy | what it is | probabilities |", "|---|---|---|"]
    for name, cls in mb.catalogue().items():
        (folder / f"{name}.md").write_text(page(cls), encoding="utf-8")
        index.append(f"| [`{name}`]({name}.md) | {cls.title} | {cls.exactness} |")
    (folder / "index.md").write_text("\n".join(index) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
