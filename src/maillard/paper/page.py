"""The report's page: one HTML file that asks for nothing from anywhere."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from . import verdicts
from .figures import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A short mark before each verdict, so that colour is not all that tells them apart.
_MARKS: Final = {
    verdicts.REPRODUCES: ("=", "yes"),
    verdicts.ONLY_WRITTEN: ("≈", "part"),
    verdicts.ONLY_RELEASED: ("≈", "part"),
    verdicts.AS_RELEASED: ("≈", "part"),
    verdicts.NOT: ("≠", "no"),
    verdicts.UNDECIDED: ("?", "open"),
}


def text(value: Any) -> str:
    """Plain text for a page."""
    return html.escape(str(value), quote=False)


def badge(words: str) -> str:
    """A verdict."""
    mark, kind = _MARKS.get(words, ("·", "open"))
    return f'<span class="verdict {kind}"><b>{mark}</b> {text(words)}</span>'


def timing(words: str) -> str:
    """Something that is not the same in the next run."""
    return f'<span class="timing">{text(words)}</span>'


def paragraphs(*parts: str) -> str:
    """Paragraphs, given as HTML."""
    return "".join(f"<p>{part}</p>\n" for part in parts)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str, *, cards: bool = False
) -> str:
    """A table with a caption, all given as HTML; it scrolls sideways where it must.

    With `cards` each row becomes a card in a narrow window, its cells one below the other.
    """
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    names = [html.escape(re.sub(r"<[^>]*>", "", name)) for name in heads]
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f'<td data-head="{n}">{c}</td>' for n, c in zip(names[1:], row[1:], strict=True))
        + "</tr>\n"
        for row in rows
    )
    kind = ' class="cards"' if cards else ""
    return (
        f'<figure class="table"><figcaption>{caption}</figcaption><div class="scroll" tabindex="0">'
        f"<table{kind}><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></figure>\n"
    )


def picture(drawn: "Figure", alt: str, caption: str, prefix: str) -> str:
    """A figure with a caption (HTML) and a description for those who do not see it."""
    return (
        f'<figure id="{prefix}"><div class="picture">{svg(drawn, alt, prefix)}</div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def side_by_side(*pictures: str) -> str:
    """Figures beside each other where the window is wide enough."""
    return f'<div class="beside">{"".join(pictures)}</div>\n'


def data(path: str) -> str:
    """A link to the numbers of a figure or table."""
    return f'<a class="data" href="{path}">data</a>'


def comparison(found: verdicts.Comparison | None, decimals: int = 5) -> str:
    """Our number, its error, and how far from the printed one it is."""
    if found is None or not found.trials:
        return "–"
    heavy = '<abbr title="heavy tail: the standard error is itself uncertain">†</abbr>'
    return (
        f"{number(found.value, decimals)}&nbsp;<small>± {found.error:.{decimals}f}</small>"
        f"{heavy if found.heavy else ''} "
        f'<small class="z">{number(found.difference, 1)}&nbsp;s.e.</small>'
    )


def number(value: float, decimals: int) -> str:
    """A number with a proper minus sign."""
    return f"{value:.{decimals}f}".replace("-", "−")


def page(title: str, sections: Sequence[tuple[str, str, str]], foot: str) -> str:
    """The whole page: sections as (anchor, title, HTML)."""
    links = "".join(
        f'<li><a href="#{anchor}">{text(name)}</a></li>' for anchor, name, _ in sections
    )
    body = "".join(
        f'<section id="{anchor}"><h2>{text(name)}</h2>\n{inner}</section>\n'
        for anchor, name, inner in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{text(title)}</h1>\n<nav><ol>{links}</ol></nav>\n{body}"
        f"<footer>{foot}</footer>\n</main>\n</body>\n</html>\n"
    )


_STYLE: Final = """
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #222222; --soft: #5b5b5b; --grid: #e6e6e6; --axis: #888888;
  --line: #d9d9d9; --tint: #f5f6f8; --link: #0059a8;
  --c0: #0072B2; --c1: #D55E00; --c2: #009E73; --c3: #CC79A7; --c4: #B87C00; --c5: #3A9AD0;
  --yes: #006b4e; --part: #8a5a00; --no: #a8321f; --open: #5b5b5b; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #15171a; --ink: #e4e4e4; --soft: #a9adb3; --grid: #2c3036; --axis: #7d828a;
  --line: #363b42; --tint: #1e2126; --link: #7fb8ee;
  --c0: #56A8E8; --c1: #F08A3C; --c2: #35C79B; --c3: #E39AC4; --c4: #E6B54A; --c5: #86CDF7;
  --yes: #5fd0a8; --part: #e0b050; --no: #f08a78; --open: #a9adb3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word; }
main { max-width: 70rem; margin: 0 auto; padding: 1rem clamp(0.9rem, 3vw, 2.5rem) 4rem; }
h1 { font-size: clamp(1.45rem, 4.5vw, 2.1rem); line-height: 1.2; margin: 1.2rem 0 0.8rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 0.6rem; padding-top: 0.8rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.8rem 0 0.4rem; }
p, li { max-width: 46rem; }
a { color: var(--link); }
nav ol { padding-left: 1.3rem; columns: 17rem; }
code { font-size: 0.9em; background: var(--tint); padding: 0.05em 0.3em; border-radius: 3px; }
figure { margin: 1.3rem 0; }
figcaption { font-size: 0.88rem; color: var(--soft); max-width: 46rem; margin: 0.35rem 0; }
.picture svg { display: block; width: 100%; height: auto; overflow: visible;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.beside { display: grid; gap: 0 1.6rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 18.5rem), 1fr)); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.75rem 0.3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--axis); vertical-align: bottom; }
tbody th { font-weight: 600; }
td { white-space: nowrap; } td.wide, td p { white-space: normal; }
small { color: var(--soft); } small.z { margin-left: 0.3em; }
abbr { text-decoration: none; cursor: help; }
.verdict { white-space: nowrap; } .verdict b { display: inline-block; min-width: 1em; }
.verdict.yes { color: var(--yes); } .verdict.part { color: var(--part); }
.verdict.no { color: var(--no); } .verdict.open { color: var(--open); }
.say { white-space: normal; display: inline-block; min-width: min(14rem, 60vw); max-width: 22rem; }
@media (max-width: 40rem) {
  th, td { padding-right: 0.5rem; } tbody th { min-width: 6.5rem; }
  tbody th .verdict { white-space: normal; }
  .cards, .cards tbody, .cards tr, .cards th, .cards td {
    display: block; border: 0; padding: 0; }
  .cards thead { display: none; }
  .cards tbody tr { border-bottom: 1px solid var(--line); padding: 0.45rem 0; }
  .cards td { white-space: normal; padding-left: 7.2rem; text-indent: -7.2rem; }
  .cards td > * { text-indent: 0; }
  .cards td::before { content: attr(data-head); color: var(--soft); display: inline-block;
    width: 7.2rem; padding-right: 0.6rem; text-indent: 0; vertical-align: top; }
}
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--link); }
.note { background: var(--tint); border-left: 3px solid var(--axis); padding: 0.5rem 1rem;
  margin: 1rem 0; max-width: 48rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: 0.88rem;
  color: var(--soft); }
"""
