"""The command line. Each command is a file in `commands`, imported when it is called.

Imports of anything heavy stand inside the commands, so that `maillard --help` answers at once.
"""

import importlib
from typing import Any, Final

import click

from . import __version__
from .commands.common import HELP

#: Command → what `maillard --help` says of it.
COMMANDS: Final = {
    "policies": "Show the catalogue of policies, or one of them.",
    "bounds": "Show what theory says of a bandit's regret, beside a simulation if asked.",
    "simulate": "Simulate policies: regret over many trials, a table, files and a figure.",
    "collect": "Simulate a policy and log every decision with its propensity.",
    "evaluate": "Say what another policy would have earned, from a log.",
    "logs": "Describe, check and convert logs of decisions.",
}


class _Commands(click.Group):
    """Finds commands by their files. Misuse prints one line and exits with 2; never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found = importlib.import_module(f"{__package__}.commands.{name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has gone; click ends quietly
        except (ValueError, OSError) as error:
            click.echo(f"maillard: {error}", err=True)
            ctx.exit(2 if isinstance(error, ValueError) else 1)


@click.group(cls=_Commands, context_settings=HELP)
@click.version_option(__version__, prog_name="maillard")
def main() -> None:
    """Multi-armed bandits whose every choice carries its exact probability.

    \b
    Examples:
      maillard policies                 the catalogue
      maillard policies kl-ms           one policy: formula, parameters, reference
      maillard policies --json          the same for programs
    """


if __name__ == "__main__":
    main()
