"""The pages of the reference, written from the code itself: nothing in them can be out of date.

Every public name must have a docstring, every command an example, every policy, estimator,
interval and environment its text; what lacks one is an error that names it.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import click
from sphinx.pycode import ModuleAnalyzer

import maillard as mb
from maillard import cli, theory
from maillard.environments.environment import REGISTRY as ENVIRONMENTS
from maillard.evaluation.catalogue import (
    ESTIMATORS,
    INTERVALS,
    USUAL_ESTIMATORS,
    USUAL_INTERVALS,
    USUAL_WITH_CONTEXT,
    WITH_CONTEXT,
)
from maillard.logs import schema
from maillard.policies.catalogue import page

#: The part of the library that a name comes from → the heading under which the API shows it.
PARTS = {
    "policies": "Policies",
    "environments": "Environments",
    "simulation": "Simulation",
    "logs": "Logs",
    "evaluation": "Evaluation",
    "theory": "Theory",
}


def pages() -> dict[str, str]:
    """Path → Markdown, of every generated page."""
    return {
        **_api(),
        "reference/cli.md": _command_line(),
        **_policies(),
        "reference/environments.md": _environments(),
        "reference/estimators.md": _estimators(),
        "reference/log-schema.md": _log_schema(),
    }


# --------------------------------------------------------------------------------------------------
# Docstrings


def text_of(thing: Any, name: str) -> str:
    """The docstring as Markdown; an error if there is none."""
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{name} is public and has no docstring")
    return markdown(text)


def markdown(text: str) -> str:
    """Docstrings are nearly Markdown: examples are fenced, sections of parameters become lists."""
    text = text.replace("``", "`")
    text = re.sub(
        r"^>>> .*?(?=\n\s*\n|\Z)", lambda m: f"```pycon\n{m[0]}\n```", text, flags=re.M | re.S
    )
    head, *sections = re.split(r"^(\w+)\n-{3,}\n", text, flags=re.M)
    parts = [head.rstrip()]
    for title, body in zip(sections[::2], sections[1::2]):
        parts.append(f"**{title}**\n\n{_listed(body)}")
    return "\n\n".join(parts)


def _listed(body: str) -> str:
    """``name : what it is``, with further lines indented, as a list."""
    joined = re.sub(r"\n[ \t]+", " ", body.strip())
    lines = []
    for line in joined.splitlines():
        names, colon, what = line.partition(" : ")
        shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        lines.append(f"- {shown}: {what}" if colon else f"\n{line}")
    return "\n".join(lines)


def _directive(kind: str, signature: str, body: str, ticks: int) -> str:
    fence = "`" * ticks
    return f"{fence}{{py:{kind}}} {signature}\n\n{body.strip()}\n{fence}\n"


def _signature(thing: Callable[..., Any], skip_first: bool = False) -> str:
    """Names and defaults; what types there are is in the text."""
    found = list(inspect.signature(thing).parameters.values())[skip_first:]
    bare = inspect.Signature([p.replace(annotation=p.empty) for p in found])
    return re.sub(r"<[^<>]*>", "…", str(bare))


# --------------------------------------------------------------------------------------------------
# The API


def _api() -> dict[str, str]:
    names = [name for name in mb.__all__ if not name.startswith("__")]
    grouped: dict[str, list[str]] = {part: [] for part in PARTS}
    for name in names:
        grouped[mb._HOME[name].partition(".")[0]].append(name)
    shown = {}
    for part, members in grouped.items():
        # Functions first: they are what one calls.
        ordered = sorted(members, key=lambda name: (inspect.isclass(getattr(mb, name)), name))
        body = [_public(name, getattr(mb, name)) for name in ordered]
        shown[f"reference/api/{part}.md"] = "\n\n".join(
            [
                f"# {PARTS[part]}",
                *_REMARKS.get(part, []),
                "```{py:currentmodule} maillard\n```",
                *body,
            ]
        )
    bounds = [
        _public(name, getattr(theory, name)) for name in theory.__all__ if name not in mb.__all__
    ]
    shown["reference/api/theory.md"] += "\n\n## maillard.theory\n\n" + "\n\n".join(
        [markdown(theory.__doc__ or ""), "```{py:currentmodule} maillard.theory\n```", *bounds]
    )
    listed = "\n".join(
        f"| [{PARTS[part]}](api/{part}.md) | {', '.join(f'`{n}`' for n in members)} |"
        for part, members in grouped.items()
    )
    shown["reference/api.md"] = (
        "# Python API\n\n`import maillard as mb` gives these names, and the class of every "
        "[policy](policies/index.md): `mb.KLMS`, `mb.UCB1`, … Names come when they are first used, "
        "so that the import itself takes no time.\n\n"
        f"| part | names |\n|---|---|\n{listed}\n\n"
        "What is not listed here may change in any release.\n\n"
        "```{toctree}\n:hidden:\n" + "".join(f"api/{part}\n" for part in PARTS) + "```\n"
    )
    return shown


#: What stands above the names of a part.
_REMARKS = {
    "policies": ["The policies themselves: [the catalogue](../policies/index.md)."],
    "environments": ["By name on the command line: [the environments](../environments.md)."],
    "evaluation": ["By name: [estimators and intervals](../estimators.md)."],
    "logs": ["What is in a log: [its columns](../log-schema.md)."],
}


def _public(name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        return _directive("function", name + _signature(thing), text_of(thing, name), 6)
    made = "Parameters\n---" in (inspect.getdoc(thing) or "") or issubclass(thing, mb.Environment)
    signature = name + (_signature(thing) if made and thing is not mb.Environment else "")
    kind = "exception" if issubclass(thing, BaseException) else "class"
    body = [text_of(thing, name), *_members(name, thing)]
    return _directive(kind, signature, "\n\n".join(body), 6)


def _members(of: str, cls: type) -> Iterable[str]:
    """Attributes, properties and methods that the class, or one of ours above it, defines."""
    seen = set()
    for owner in cls.__mro__:
        # What all environments have is shown once, with Environment.
        inherited = owner is mb.Environment and cls is not mb.Environment
        if inherited or not owner.__module__.startswith("maillard"):
            continue
        for name, text in _attributes(owner).items():
            if name not in seen and not name.startswith("_"):
                seen.add(name)
                yield _directive("attribute", name, markdown(text), 5)
        for name, value in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if isinstance(value, property):
                seen.add(name)
                yield _directive("property", name, text_of(value, f"{of}.{name}"), 5)
            elif inspect.isfunction(plain):
                seen.add(name)
                static = isinstance(value, staticmethod)
                signature = name + _signature(plain, skip_first=not static)
                kind = "classmethod" if isinstance(value, classmethod) else "method"
                body = text_of(getattr(cls, name), f"{of}.{name}")
                yield _directive("staticmethod" if static else kind, signature, body, 5)


def _attributes(cls: type) -> dict[str, str]:
    """What comments that begin with `#:` say of a class's attributes."""
    found = ModuleAnalyzer.for_module(cls.__module__).find_attr_docs()
    return {
        name: " ".join(lines).strip()
        for (owner, name), lines in found.items()
        if owner == cls.__qualname__
    }


# --------------------------------------------------------------------------------------------------
# The command line


def _command_line() -> str:
    top = _context(cli.main, "maillard", None)
    parts = [
        "# Command line",
        markdown(inspect.getdoc(cli) or ""),
        "What follows is what every command says of itself with `--help`.",
        _help(cli.main, top),
    ]
    for name in cli.main.list_commands(top):
        parts += _command(cli.main.get_command(top, name), top, name, 2)
    return "\n\n".join(parts) + "\n"


def _command(command: Any, parent: click.Context, name: str, level: int) -> list[str]:
    context = _context(command, name, parent)
    text = command.help or ""
    if "Example" not in text:
        raise ValueError(f"the help of {context.command_path} shows no example")
    parts = [f"{'#' * level} {context.command_path}", _help(command, context)]
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            parts += _command(command.get_command(context, below), context, below, level + 1)
    return parts


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    settings = {**command.context_settings, "max_content_width": 88, "terminal_width": 88}
    return click.Context(command, info_name=name, parent=parent, **settings)


def _help(command: click.Command, context: click.Context) -> str:
    return f"```text\n{command.get_help(context)}\n```"


# --------------------------------------------------------------------------------------------------
# The catalogues


def _policies() -> dict[str, str]:
    classes = mb.catalogue()
    rows = "\n".join(
        f"| [`{name}`]({name}.md) | {cls.title} | {_cell(cls.exactness)} | "
        f"{mb.describe(cls)['horizon']} |"
        for name, cls in classes.items()
    )
    index = (
        f"# Policies\n\n{len(classes)} policies, each with its formula, its parameters and what "
        "its probabilities are. `maillard policies` prints the same text.\n\n"
        f"| name | policy | probabilities | horizon |\n|---|---|---|---|\n{rows}\n\n"
        "```{toctree}\n:hidden:\n" + "".join(f"{n} <{n}>\n" for n in classes) + "```\n"
    )
    found = {f"reference/policies/{name}.md": page(cls) for name, cls in classes.items()}
    for name, text in found.items():
        if not text.strip():
            raise ValueError(f"{name} is empty")
    return {"reference/policies/index.md": index, **found}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _environments() -> str:
    parts = [
        "# Environments",
        "By name for the command line and TOML files, by class in Python; parameters are the same: "
        "`--environment gaussian:means=0.1,0.2,sd=0.5` is `mb.Gaussian([0.1, 0.2], sd=0.5)`. "
        "`--means 0.8,0.9` is short for `--environment bernoulli:means=0.8,0.9`.",
    ]
    for slug, cls in ENVIRONMENTS.items():
        if not cls.__module__.startswith("maillard."):
            continue
        signature = f"mb.{cls.__name__}{_signature(cls)}"
        parts += [f"## {slug}", f"```python\n{signature}\n```", text_of(cls, slug)]
        parts.append(f"**Law**: {cls.formula}")
    return "\n\n".join(parts) + "\n"


def _estimators() -> str:
    parts = [
        "# Estimators and intervals",
        f"`mb.evaluate(log, estimators=[…], intervals=[…])`, or `--estimator` and `--interval`. "
        f"Without them: {_codes(USUAL_ESTIMATORS)} with {_codes(USUAL_INTERVALS)}. In the formulas "
        "w = π(A)/p(A) is the importance weight of a row, r its reward, q(A) the reward predicted "
        "for its arm, v = Σ_a π(a) q(a), and λ where weights are cut.",
        "## Estimators",
    ]
    parts += [_estimator(name, cls) for name, cls in ESTIMATORS.items()]
    parts += [
        "## Estimators where there is a context",
        "With a reward model, or a target that is given row by row, these take the place of those "
        f"of the same name, or are new. Without names: {_codes(USUAL_WITH_CONTEXT)}. What a "
        "context takes is told in [evaluating a log](../evaluation.md#with-a-context).",
    ]
    parts += [_estimator(name, cls) for name, cls in WITH_CONTEXT.items()]
    parts.append("## Intervals")
    for name, interval in INTERVALS.items():
        holds = "at every time at once" if interval.anytime else "at one time, fixed beforehand"
        facts = [f"- **reference**: {interval.reference}", f"- **holds**: {holds}"]
        if not interval.reference:
            raise ValueError(f"the interval {name} has no reference")
        parts += [f"### `{name}`: {interval.title}", text_of(interval, name), "\n".join(facts)]
    return "\n\n".join(parts) + "\n"


def _estimator(name: str, cls: Any) -> str:
    if not cls.formula or not cls.reference:
        raise ValueError(f"the estimator {name} has no formula or no reference")
    facts = [f"- **formula**: {cls.formula}", f"- **reference**: {cls.reference}"]
    if cls.needs_probabilities:
        facts.append("- **needs**: the probabilities of all arms in every row")
    for_contexts = WITH_CONTEXT.get(name, cls) is cls and cls.contextual != "no"
    if cls.needs_fixed_target and for_contexts:
        facts.append("- **target**: the same in every row, or a function of the context")
    elif cls.needs_fixed_target:
        facts.append("- **target**: the same in every row")
    if cls.one_pass:
        facts.append("- **pieces**: one pass over all rows, without an executor")
    if cls.rows_at_most:
        facts.append(f"- **rows**: at most {cls.rows_at_most:,}")
    context = {
        "no": "none", "yes": "allowed", "model": "with a reward model", "only": "needed",
    }[cls.contextual]  # fmt: skip
    if cls.needs_blind:
        context += ", if the policy that wrote the log saw none: `blind=True`"
    facts.append(f"- **context**: {context}")
    return "\n\n".join([f"### `{name}`: {cls.title}", text_of(cls, name), "\n".join(facts)])


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _log_schema() -> str:
    said = markdown(textwrap.dedent(schema.__doc__ or ""))
    lacking = [name for name in schema.KNOWN if f"`{name}`" not in said]
    if lacking:
        raise ValueError(f"the table of a log's columns lacks {', '.join(lacking)}")
    return (
        f"# What is in a log\n\n{said}\n\n"
        f"The metadata are JSON under the key `{schema.KEY.decode()}` of the schema of Arrow or "
        f"Parquet: `format` ({schema.FORMAT} at present), `arms` (the labels in their order), and "
        "what is known of all rows, such as `policy`, `parameters`, `rewards`, `seed` and "
        "`environment`.\n"
    )
