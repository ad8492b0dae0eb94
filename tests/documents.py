"""The code in the documents: what is in them, and running it.

A document's Python blocks run in order in one namespace, and its commands between them, all in one
empty folder. A block of plain text right after a Python block is what that block prints; the lines
after a command, up to the next `$`, are what the command prints. Where `…` stands, anything may.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from maillard.cli import main

ROOT = Path(__file__).parent.parent


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    text: str
    #: The line that it begins at, from 1.
    line: int
    #: Whether nothing but blank lines stands between it and the block before.
    follows: bool


def blocks(path: Path) -> list[Block]:
    """All fenced blocks in order."""
    text = path.read_text(encoding="utf-8")
    found, end = [], 0
    for match in re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, re.M | re.S):
        follows = bool(found) and not text[end : match.start()].strip()
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1].strip(), match[2], line, follows))
        end = match.end()
    return found


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a block, and what each prints; "" where that is not shown."""
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        parts = re.split(r"^\$ ", text, flags=re.M)[1:]
        return [(part.partition("\n")[0], part.partition("\n")[2].strip("\n")) for part in parts]
    if block.language in ("", "sh", "bash"):
        known = r"^(?:maillard|make|pip|python)\s.*$"
        return [(line, "") for line in re.findall(known, text, re.M)]
    return []


def run(path: Path) -> None:
    """Run a document in the current folder; an AssertionError says what went otherwise."""
    scope: dict[str, object] = {}
    printed, where = "", ""
    for block in blocks(path):
        if block.language == "python":
            where = f"{path.name}, line {block.line}"
            # As many line breaks before it as in the document: errors then name the right line.
            source = "\n" * block.line + block.text
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(source, str(path), "exec"), scope)
            printed = output.getvalue()
        elif block.language == "text" and block.follows and where:
            expect(block.text, printed, where)
        elif block.language == "toml":
            Path("sweep.toml").write_text(block.text, encoding="utf-8")
        for command, output in commands(block):
            printed = run_command(command)
            if output:
                expect(output, printed, f"{path.name}, `{command}`")


def run_command(command: str) -> str:
    """What a `maillard` command prints. Others are only looked at: they build or install."""
    words = shlex.split(command, comments=True)
    if words[0] == "maillard":
        done = CliRunner().invoke(main, words[1:], catch_exceptions=False, prog_name="maillard")
        assert done.exit_code == 0, f"`{command}` exits with {done.exit_code}: {done.output}"
        return done.stdout
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert set(words[1:]) <= set(targets), f"`{command}`: there is no such target"
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), f"`{command}`: there is no such script"
    elif words[0] == "pip":
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        for extras in re.findall(r"\[([\w,]+)\]", command):
            for extra in extras.split(","):
                assert re.search(rf"^{extra} = \[", project, re.M), f"there is no extra {extra}"
    elif words[0] not in ("cd", "git", "eval", "export"):
        raise AssertionError(f"`{command}`: the tests do not know what to make of it")
    return ""


def expect(shown: str, printed: str, where: str) -> None:
    """What a document shows is what was printed, but for spaces at the ends and where it says …"""
    wanted, got = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
        for text in (shown, printed)
    )
    pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
    if not re.fullmatch(pattern, got, re.S):
        raise AssertionError(f"{where} prints\n{got}\nand the document shows\n{wanted}")
