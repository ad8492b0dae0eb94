"""The command line: misuse prints one line and never a traceback.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a file could not be read or written, or memory ran out |
| 2 | misuse: an unknown name, a file that is not there, a number out of range, a bad log |
| 130 | interrupted with Ctrl-C; what was complete is kept where the command says so |

Tables and JSON go to standard output; progress, warnings and errors to standard
error. Colours appear on a terminal only, and not where `NO_COLOR` is set.
"""

# Each command is a file in `commands`, imported when it is called, and imports of anything heavy
# stand inside the commands, so that `maillard --help` answers at once.

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from typing import IO, Any, Final

import click

from . import __version__
from .commands.common import HELP, INTERRUPTED, as_options

#: Command → what `maillard --help` says of it.
COMMANDS: Final = {
    "policies": "Show the catalogue of policies, or one of them.",
    "bounds": "Show what theory says of a bandit's regret, beside a simulation if asked.",
    "simulate": "Simulate policies: regret over many trials, a table, files and a figure.",
    "collect": "Simulate a policy and log every decision with its propensity.",
    "evaluate": "Say what another policy would have earned, from a log.",
    "logs": "Describe, check and convert logs of decisions.",
    "reproduce": "Run the KL-MS paper's experiments again, and write a report.",
}


class _Misuse(click.ClickException):
    """What is wrong with the words of a command, in one line instead of click's four."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        _say(self.message)


@contextlib.contextmanager
def _words_checked() -> Iterator[None]:
    """Turns click's complaints into lines that say where there is help."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # it is the help
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "maillard"
        reason = error.format_message().rstrip(".")
        raise _Misuse(f"{reason} (see `{command} --help`)") from None


class _Commands(click.Group):
    """Finds commands by their files, and says in one line what went wrong in them."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _words_checked():
            return super().make_context(*args, **kwargs)

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
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: _say(str(message))
                with _words_checked():
                    return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has gone; click ends quietly
        except KeyboardInterrupt:
            _say("interrupted")
            ctx.exit(INTERRUPTED)
        except (OSError, MemoryError) as error:
            _say(_reason(error))
            ctx.exit(2 if isinstance(error, FileNotFoundError) else 1)
        except (ValueError, NotImplementedError) as error:
            _say(as_options(str(error)))
            ctx.exit(2)


def _say(text: str) -> None:
    """One line on standard error, whatever line breaks a library has put into its message."""
    click.echo(f"maillard: {' '.join(text.split())}", err=True)


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return str(error) or "not enough memory"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@click.group(cls=_Commands, context_settings=HELP)
@click.version_option(__version__, prog_name="maillard")
def main() -> None:
    """Multi-armed bandits whose every choice carries its exact probability.

    \b
    Examples:
      maillard policies kl-ms
      maillard simulate --policy kl-ms --policy thompson --means 0.8,0.9 --out regret
      maillard collect --policy kl-ms --means 0.8,0.9 --out log.parquet
      maillard evaluate log.parquet --target uniform
      maillard bounds --means 0.8,0.9 --horizon 10000

    \b
    Every command explains itself with --help. Exit codes: 0 done, 1 a file cannot be read or
    written, 2 misuse (also a file that is not there), 130 interrupted. Completion in bash (zsh
    and fish likewise):
      eval "$(_MAILLARD_COMPLETE=bash_source maillard)"
    """


if __name__ == "__main__":
    main()
