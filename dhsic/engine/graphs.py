"""Where Dask computes graphs that no pass reads: gaps of rows, labels, and rows that are held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from dhsic._validation import check_integer
from dhsic.engine.runtime import check_client

GraphPlace = Mapping[str, Any]
"""Options of `dask.compute`; none for the scheduler that Dask takes by itself."""

_PLACE: ContextVar[GraphPlace] = ContextVar("_PLACE", default=MappingProxyType({}))


@contextmanager
def graphs_on(client: Any, threads: int | None) -> Iterator[None]:
    """Compute graphs where a user has a run take place: on a client, or on threads of this process.

    Raises
    ------
    InvalidArgumentError
        It is no running client, or no number of threads.
    """
    place: GraphPlace = {}
    if client is not None:
        check_client(client, threads)
        place = {"scheduler": client}
    elif threads is not None:
        count = check_integer("threads", threads, minimum=1)
        place = {"scheduler": "threads", "num_workers": count}
    with graphs_at(place):
        yield


@contextmanager
def graphs_at(place: GraphPlace) -> Iterator[None]:
    """The same at a place that `graph_place` told."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def graph_place() -> GraphPlace:
    """Where graphs are computed here."""
    return _PLACE.get()


def compute_graphs(*lazy: Any) -> tuple[Any, ...]:
    """Values of what Dask can compute."""
    import dask  # slow to import

    values: tuple[Any, ...] = dask.compute(*lazy, **_PLACE.get())
    return values
