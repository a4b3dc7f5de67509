"""Pictures that a command writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dhsic.errors import DataError, needing
from dhsic.plots import figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check_picture(path: Path | None) -> None:
    """Refuse before a run a picture that could not be written after it.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    click.UsageError
        Its name ends in no format that matplotlib writes.
    """
    if path is None:
        return
    with needing("matplotlib", "plot", "--plot"):
        from matplotlib.figure import Figure
    # A figure alone has no window, so that this needs no display.
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        msg = f"--plot needs a name that ends in a format, as OUT.png or OUT.svg; got {path.name}"
        raise click.UsageError(msg)


def write_picture(path: Path | None, draw: Callable[[], Axes]) -> None:
    """Draw a figure and write it, where a picture was asked for.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    if path is None:
        return
    import matplotlib as mpl

    mpl.use("Agg", force=True)  # no window, whatever the machine has
    from matplotlib import pyplot as plt

    # A font without the letters of a name draws boxes, and warns once a letter.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = figure_of(draw())
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            msg = f"cannot write the picture {path}: {error.strerror or error}"
            raise DataError(msg) from error
        # Figures stay open in pyplot until they are closed, one more with every call.
        finally:
            plt.close(figure.number)
