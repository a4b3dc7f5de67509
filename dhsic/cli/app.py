"""The group of all commands: exit codes, errors and warnings in one line, interrupts."""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from dhsic._files import NO_STREAM
from dhsic._validation import removed, removed_option
from dhsic._version import __version__
from dhsic.cli.options import in_shell
from dhsic.cli.running import INTERNAL, INTERRUPTED, USAGE, interruptible
from dhsic.cli.submit import cancel, result, runs, status, submit
from dhsic.cli.table import COMMANDS, checkpoints, convert, demo, generate_command, methods
from dhsic.errors import DhsicError, brief_message, printable
from dhsic.io.urls import redacted


class Application(click.Group):
    """A group of commands whose errors are a line on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit."""
        # Click would exit here by itself, with codes and texts of its own.
        del standalone_mode
        arguments = list(sys.argv[1:] if args is None else args)
        debug = _take_debug(arguments)
        with warnings.catch_warnings(), _logs_shown(debug):
            # Not a filter: which warnings are shown, and how often, stays with the user.
            warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}")
            try:
                with interruptible():
                    # Journals and pages repeat the words of the command, which travel in `obj`.
                    code = super().main(
                        arguments, prog_name, complete_var, False, obj=tuple(arguments), **extra
                    )
            except (Exception, KeyboardInterrupt) as error:
                # Before the error in a line, which then stands last on the screen.
                if debug:
                    traceback.print_exc()
                code = _report(error)
        sys.exit(code if isinstance(code, int) else 0)


def _take_debug(arguments: MutableSequence[str]) -> bool:
    """Remove ``--debug`` wherever it stands among the options."""
    # What follows `--` are words of another command, with a --debug of its own.
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--debug" not in options:
        return False
    arguments.remove("--debug")
    return True


def _report(error: BaseException) -> int:
    """Say on stderr what went wrong, and choose the exit code."""
    # The cause may tell what is kept, as checkpoints do.
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say(str(error.__cause__ or error) or "interrupted")
        return INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return USAGE
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        message = error.format_message()
        gone = _gone(error, message)
        # Names that are spelt alike are others than what serves for a removed one.
        if gone not in message:
            message = re.split(r"\.? \(?Did you mean", message)[0].removesuffix(".") + gone
        _say(f"error: {message}{_where_to_look(context)}")
        return USAGE
    if isinstance(error, DhsicError):
        _say(f"error: {error}")
        return USAGE
    # One line at any rate: an error of a library may have a page of text.
    text = " ".join(str(error).split())[:200]
    _say(f"internal error: {type(error).__name__}: {text}; run with --debug for the traceback")
    return INTERNAL


def _gone(error: click.ClickException, message: str) -> str:
    """End of a message about words that were removed: what the command takes in their place."""
    # Whatever click does not know, a value, an option or a command, it quotes.
    words = re.findall(r"'([^']+)'", message)
    context = getattr(error, "ctx", None)
    if context is None:
        return next(filter(None, map(removed, words)), "")
    # What is missing was perhaps given by an option that was removed.
    if isinstance(error, click.MissingParameter):
        words += [word.partition("=")[0] for word in context.find_root().obj or ()]
    options = {option: one for one in context.command.params for option in one.opts}

    def takes(option: str, name: str) -> bool:
        one: Any = options.get(option)
        several = name == "grid" and "|" in getattr(one, "help", "")
        return several or name in getattr(getattr(one, "type", None), "names", ())

    hints = (
        removed(word) or removed(f"{context.info_name} {word}") or removed_option(word, takes)
        for word in words
        if word not in options
    )
    return next(filter(None, hints), "")


def _where_to_look(context: click.Context | None) -> str:
    return "" if context is None else f" (see '{context.command_path} --help')"


def _say(text: str) -> None:
    # Names of data reach the terminal here, and URLs with passwords the logs of others.
    line = redacted(printable(in_shell(" ".join(f"dhsic: {text}".split()))))
    with suppress(*NO_STREAM):  # nobody hears, as of a service
        click.echo(brief_message(line), err=True)


@contextmanager
def _logs_shown(shown: bool) -> Iterator[None]:
    """Show or hide logs of libraries on a failure, which the error tells in words for the user."""
    before = logging.root.manager.disable
    logging.disable(before if shown else logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


_EPILOG = """\b
Start with
  dhsic demo
and then, on your own table,
  dhsic test songs.csv --variable timbre=t1,t2,t3 --variable year
or, where it does not fit the memory,
  dhsic convert table songs.csv songs.zarr \\
      --variable timbre=t1,t2,t3 --variable year=year
  dhsic plan songs.zarr --variable timbre --variable year
  dhsic test songs.zarr --variable timbre --variable year

\b
Exit codes: 0 the command ran, whatever a test decided; 1 internal error;
2 bad usage or bad data; 130 interrupted.
"""


@click.group(
    "dhsic",
    cls=Application,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="dhsic", message="%(prog)s %(version)s")
@click.option(
    "--debug", is_flag=True, expose_value=False, help="Show tracebacks; may stand anywhere."
)
@click.pass_context
def main(context: click.Context) -> None:
    """Test whether variables are independent, with kernels, on data of any length.

    DATA is a zarr group of row-aligned arrays, or a CSV or Parquet file that fits in memory.
    'generate' and 'convert' make zarr groups. 'plan' prints the cost of a test, 'test' runs it, and
    'submit' sends it to a queue. 'rank' ranks many columns by their dependence on a target,
    'matrix' compares all pairs, 'difference' tells on which of two variables a third depends more,
    'sensitivity' maps a measure to rows and columns, 'two-sample' compares samples, 'interaction'
    tests three variables, 'conditional' tests two given others, and 'cause' infers causes.
    'methods' lists the texts of kernels, estimators and nulls.
    """
    # Help, and the exit code of success: nothing was asked for.
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cause = click.Group(
    "cause",
    short_help="Infer causes from independent residuals.",
    help="Infer causes from independent residuals.\n\n"
    "The regression of a variable on its causes leaves residuals that are independent of them; in "
    "the other direction residuals and variables usually depend on each other. The methods assume "
    "smooth functions, additive noise and no hidden common cause. P-values are approximate, "
    "because residuals are estimated.",
)
_tables = {name: command for name, command in COMMANDS.items() if " " not in name}
for _name in COMMANDS.keys() - _tables.keys():
    cause.add_command(COMMANDS[_name])

# In the order of the help: make data, test them, look closer, then clusters and what they leave.
for _command in (
    *(generate_command, convert, *_tables.values(), cause, methods, demo),
    *(submit, runs, status, result, cancel, checkpoints),
):
    main.add_command(_command)
