"""The group of all commands."""

from __future__ import annotations

import click

from dhsic._version import __version__
from dhsic.cli.app import Application
from dhsic.cli.checkpoints import checkpoints
from dhsic.cli.data import convert, generate_command
from dhsic.cli.demo import demo
from dhsic.cli.submit import cancel, result, runs, status, submit
from dhsic.cli.table import COMMANDS, methods

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

    DATA is a zarr group of row-aligned arrays, or a CSV or Parquet file that fits the memory.
    'generate' and 'convert' make zarr groups. 'plan' prints the cost of a test, 'test' runs it, and
    'submit' hands it to a queue. 'rank' ranks many columns by their dependence on a target,
    'matrix' compares all pairs, 'sensitivity' maps a measure to rows and columns, 'two-sample'
    compares samples, 'interaction' tests three variables, 'conditional' tests two given others, and
    'cause' infers causes. 'methods' lists the texts of kernels, estimators and nulls.
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
