"""``dhsic sensitivity``."""

from __future__ import annotations

from typing import Any, get_args

import click

import dhsic
from dhsic.cli.journal import Journal, open_journal
from dhsic.cli.options import Request, measure_options, read_measure
from dhsic.cli.output import print_summary
from dhsic.cli.pages import Page
from dhsic.cli.recipes import code_of_map
from dhsic.cli.run_display import check_targets, seen_run
from dhsic.io.whole import write_whole
from dhsic.io.zarr_output import check_new_group
from dhsic.sensitivity import SensitivityMap
from dhsic.sensitivity.maps import Of, map_columns

_EPILOG = """\b
Estimators that have a map: nystrom-m, rff-hsic, v-hsic

\b
Example
  dhsic sensitivity songs.zarr --variable features --variable year \\
      --out map.zarr
"""


@click.command(
    epilog=_EPILOG, short_help="Find the columns and rows that a measure depends on most."
)
@measure_options
@click.option(
    "--of",
    type=click.Choice(get_args(Of)),
    default="statistic",
    help="Differentiate the statistic of 'dhsic test', or the estimate of HSIC.",
)
@click.option(
    "--wrt",
    multiple=True,
    metavar="NAME",
    help="Differentiate in the entries of this variable; the option may be repeated.  "
    "[default: all variables]",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    default=5,
    help="Number of columns of each variable to print, the most sensitive first.",
)
@click.option(
    "--out",
    "out_path",
    metavar="MAP.zarr",
    help="Write the map to a new zarr group, one array per variable.",
)
def sensitivity(**options: Any) -> None:
    """Differentiate a measure of dependence in every entry of DATA.

    Prints the measure and the columns of each variable to which it is most sensitive, by the mean
    square of the derivatives over the rows.
    """
    check_targets(options)
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = Page(options["page_path"], command)
    with open_journal(options["log_path"], command, options["data"]) as journal:
        request = read_measure(options)
        # Refused before the run, whose map would have no place.
        _check_out(request, options)
        result = _run_map(request, options, journal, page)
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            page.write(result, options, request.place, code_of_map(options, request))
            journal.tell("result", of=result.of, value=result.value, seed=result.measured.seed)
        finally:
            print_summary(result.summary(options["top"]))


def _check_out(request: Request, options: dict[str, Any]) -> None:
    """Refuse before the run what could not be written after it."""
    if options["out_path"] is not None:
        # Only variables that are varied have an array in the map.
        dims = {source.name: source.shape[1] for source in request.sources}
        varied = {name: d for name, d in dims.items() if name in (options["wrt"] or dims)}
        columns = map_columns(varied)
        check_new_group(options["out_path"], columns, overwrite=options["overwrite"])


def _run_map(
    request: Request, options: dict[str, Any], journal: Journal, page: Page
) -> SensitivityMap:
    """Compute a map, write it and draw from it, seen on the terminal and in the journal."""
    with seen_run(request.place.client, options, journal, page) as seen:
        result = dhsic.sensitivity_map(
            *request.sources,
            of=options["of"],
            wrt=options["wrt"] or None,
            **seen,
            **request.arguments,
        )
        if options["out_path"] is not None:
            # Inside the block: blocks of the map are computed as they are written, by the workers.
            result.to_zarr(options["out_path"], overwrite=options["overwrite"])
        # The picture needs values of rows, which workers read and which are gone with them.
        if page.wanted and result.flat:
            result.drawn  # noqa: B018  # while there are processes to compute its points
        return result
