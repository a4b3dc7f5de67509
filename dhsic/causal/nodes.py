"""The nodes of a causal graph, as variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dhsic._arguments import RunOptions
from dhsic._rows import ALL_ROWS, RowLabels
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.missing import Missing

FEWEST_ROWS = 4


def open_nodes(
    run: RunOptions,
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: Missing,
    rows: RowLabels = ALL_ROWS,
    *,
    most: int | None = None,
) -> Session:
    """A session over variables that are nodes of a graph, or the columns of one of them.

    Parameters
    ----------
    run : RunOptions
        Where it runs, and how.
    variables : sequence of array-like
        As for `dhsic.independence_test`; one of two columns or more stands for its columns.
    names : sequence of str or None
        Names of the nodes; their own where not given, as those of the columns of a data frame.
    data, missing
        As for `dhsic.independence_test`.
    rows : RowLabels, optional
        Groups and order of the rows.
    most : int, optional
        Nodes that are taken.

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
    what = "a test of residuals"
    session = run.open(variables, names, data, missing, rows, what=what, fewest=FEWEST_ROWS)
    # Before anything is regressed: the number of graphs grows faster than the factorial.
    if most is not None and len(session.sources) > most:
        msg = (
            f"all graphs are scored over 2 to {most} nodes, got {len(session.sources)}: leave some "
            "out, or search for one graph by dhsic.causal.search_dag"
        )
        raise InvalidArgumentError(msg)
    for source in session.sources:
        # Codes of categories have no order that a regression could fit.
        if source.categorical:
            msg = (
                f"a regression needs numbers, and variable {source.name!r} holds categories: give "
                "an indicator of each as columns"
            )
            raise DataError(msg)
    return session
