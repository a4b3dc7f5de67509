"""The nodes of a causal graph, as variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dhsic._arguments import DROP_MISSING, session_over
from dhsic._random import RngLike
from dhsic._rows import ALL_ROWS, RowLabels, open_rows
from dhsic.engine.graphs import graphs_on
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.missing import Missing

FEWEST_ROWS = 4


def open_nodes(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: Missing,
    rng: RngLike,
    precision: str,
    *place: Any,
    time: float | str | None = None,
    most: int | None = None,
    labels: RowLabels = ALL_ROWS,
) -> Session:
    """A session over variables that are nodes of a graph, or the columns of one of them.

    Parameters
    ----------
    variables : sequence of array-like
        As for `dhsic.independence_test`; one of two columns or more stands for its columns.
    names : sequence of str or None
        Names of the nodes; their own where not given, as those of the columns of a data frame.
    data, missing, rng, precision, time
        As for `dhsic.independence_test`.
    *place : object
        Its client, threads, memory, progress and checkpoint.
    most : int, optional
        Nodes that are taken.
    labels : RowLabels, optional
        Groups and order of the rows.

    Returns
    -------
    Session

    Raises
    ------
    InvalidArgumentError
        Fewer than two nodes, or too many, or names that do not fit.
    DataError
        As for `dhsic.io.open.open_data`; categories, which have no residuals; or fewer than 4 rows.
    """
    client, threads, memory, *_ = place
    with graphs_on(client, threads):
        opened = open_rows(variables, names, data, missing, labels, memory)
    sources = opened.sources
    # Before anything is regressed: the number of graphs grows faster than the factorial.
    if most is not None and len(sources) > most:
        msg = (
            f"all graphs are scored over 2 to {most} nodes, got {len(sources)}: leave some out, "
            "or search for one graph by dhsic.causal.search_dag"
        )
        raise InvalidArgumentError(msg)
    for source in sources:
        # Codes of categories have no order that a regression could fit.
        if source.categorical:
            msg = (
                f"a regression needs numbers, and variable {source.name!r} holds categories: give "
                "an indicator of each as columns"
            )
            raise DataError(msg)
    if sources[0].shape[0] < FEWEST_ROWS:
        msg = f"a test of residuals needs at least {FEWEST_ROWS} rows, got {sources[0].shape[0]}"
        raise DataError(msg)
    session = session_over(sources, rng, precision, *place, time=time)
    session.dropped, session.remedy = opened.dropped, DROP_MISSING
    session.moves = opened.moves(session.seed)
    return session
