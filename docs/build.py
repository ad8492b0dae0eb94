"""Build the documentation into `site/`: what `make docs` runs. Any warning is an error.

    python docs/build.py [--out DIR] [--no-report]

The pages of this folder and the generated reference are gathered in a folder of their own, where
Sphinx reads them. A picture that a page shows and that is not a file here is drawn now, by the
block of the page that writes it; such a block stands on its own.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import reference
from sphinx.cmd.build import main as sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: Documents of the repository's root that are pages of the site.
ROOTED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def gather(folder: Path) -> None:
    """Every page and picture that Sphinx is to read."""
    for path in sorted(DOCS.iterdir()):
        if path.suffix in (".svg", ".png"):
            shutil.copy(path, folder / path.name)
        elif path.suffix == ".md":
            _page(path, folder / path.name)
    for name, target in ROOTED.items():
        _page(ROOT / name, folder / target)
    for name, text in {**reference.pages(), "examples.md": _examples()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "_static", folder / "_static")


def _page(source: Path, target: Path) -> None:
    text = source.read_text(encoding="utf-8")
    for name in re.findall(r"!\[[^\]]*\]\(([\w./-]+)\)", text):
        if not (source.parent / name).exists():
            _draw(source, text, name, target.parent)
    target.write_text(relinked(text, source), encoding="utf-8")


def _draw(source: Path, text: str, name: str, folder: Path) -> None:
    """Run the block that writes a picture."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    makers = [block for block in blocks if re.search(rf"[\"']{re.escape(name)}[\"']", block)]
    if not makers:
        raise SystemExit(f"{source.name} shows {name}, which is no file and no block writes")
    with contextlib.chdir(folder):
        exec(compile(makers[0], f"{source.name}, {name}", "exec"), {})
    if not (folder / name).exists():
        raise SystemExit(f"{source.name}: the block that names {name} does not write it")


def relinked(text: str, source: Path) -> str:
    """Links between files of the repository as links between pages of the site.

    A file that is no page, such as a script of `benchmarks/`, is named without a link.
    """

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if target.startswith("reference/") or target == "examples.md":
            return match[0]  # a generated page
        path = (source.parent / target).resolve()
        if not path.exists():
            raise SystemExit(f"{source.name} links to {target}, which is not there")
        inside = path.relative_to(ROOT.resolve())
        if inside.parts[0] == "docs" and path.suffix == ".md":
            return f"[{words}]({inside.name}{anchor})"
        if str(inside) in ROOTED:
            return f"[{words}]({ROOTED[str(inside)]}{anchor})"
        if inside.parts[0] == "examples" and path.suffix == ".py":
            return f"[{words}](examples.md#{_anchor(path)})"
        if str(inside) == "README.md":
            return f"[{words}](index.md)"
        return words if words.startswith("`") else f"{words} (`{inside}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[\w-]+)?\)", link, text)


def _anchor(path: Path) -> str:
    return re.sub(r"[^\w-]", "", path.name.lower())


def _examples() -> str:
    """The scripts of `examples/`, each whole."""
    parts = ["# Examples", "Scripts to start from: `python examples/NAME.py`."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts += [f"## {path.name}", f"```python\n{text}```"]
    return "\n\n".join(parts) + "\n"


def report(folder: Path) -> None:
    """The reproduction's report beside the pages: the one that is there, or a quick one."""
    target = folder / "beside" / "report"
    if (ROOT / "report" / "index.html").exists():
        shutil.copytree(ROOT / "report", target)
    else:
        words = ["-m", "maillard", "reproduce", "--quick", "--quiet", "--out", str(target)]
        target.parent.mkdir()
        subprocess.run([sys.executable, *words], check=True)
    with (folder / "reproduction.md").open("a", encoding="utf-8") as page:
        page.write(
            '\n## The report\n\n<p><a href="report/index.html">Every figure and table, the '
            "published numbers beside ours</a>, as made with this site.</p>\n"
        )


def main() -> int:
    """Gather the pages, put the report beside them, and let Sphinx write the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    parser.add_argument("--no-report", action="store_true", help="leave the reproduction out")
    given = parser.parse_args()
    out = given.out.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "pages"
        folder.mkdir()
        gather(folder)
        words = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(DOCS)]
        if not given.no_report:
            report(folder)
            words += ["-D", f"html_extra_path={folder / 'beside'}"]
        shutil.rmtree(out, ignore_errors=True)
        status = sphinx([*words, "-d", f"{name}/doctrees", str(folder), str(out)])
    if status == 0:
        sys.stdout.write(f"{out / 'index.html'}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
