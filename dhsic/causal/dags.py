"""Directed acyclic graphs over a few nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, permutations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dhsic import plots
from dhsic._text import printable
from dhsic._validation import shown
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError, require
from dhsic.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Parents = tuple[tuple[int, ...], ...]
"""Numbers of the parents of every node, ascending."""


@dataclass(frozen=True, eq=False, repr=False)
class DAG(Result):
    """A directed acyclic graph.

    Parameters
    ----------
    names : tuple of str
        Names of the nodes.
    parents : tuple of tuple of int
        Numbers of the parents of every node.

    Raises
    ------
    InvalidArgumentError
        There is a cycle, or a parent that is no other node.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from dhsic.causal import DAG
    >>> dag = DAG(("a", "b", "c"), ((), (0,), (0, 1)))
    >>> print(dag)
    a -> b, a -> c, b -> c
    >>> DAG.of(("a", "b", "c"), [("a", "b"), ("a", "c"), ("b", "c")]) == dag
    True
    >>> dag
    <DAG: a -> b, a -> c, b -> c, 3 nodes>
    """

    _tabular: ClassVar[bool] = True

    names: tuple[str, ...]
    parents: Parents

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = isinstance(self.names, Sequence) and isinstance(self.parents, Sequence)
        if not listed or not all(map(_is_numbers, self.parents)):
            msg = (
                "a DAG needs a sequence of names, and one of the numbers of the parents of each; "
                f"got {shown(self.names)} and {shown(self.parents)}"
            )
            raise InvalidArgumentError(msg)
        m = len(self.names)
        others = all(
            set(parents) <= set(range(m)) - {node} and list(parents) == sorted(set(parents))
            for node, parents in enumerate(self.parents)
        )
        if len(self.parents) != m or not others or not _acyclic(self.parents):
            msg = (
                f"a DAG of {m} nodes needs the parents of each, numbers of other nodes, ascending "
                f"and without a cycle; got {self.parents!r}"
            )
            raise InvalidArgumentError(msg)

    @classmethod
    def of(cls, names: Iterable[str], edges: Iterable[tuple[str, str]]) -> DAG:
        """The graph of edges, each from a cause to its effect by their names."""
        names, edges = tuple(names), tuple(edges)  # iterators, too, which are read more than once
        if len(set(names)) < len(names):
            msg = f"the names of nodes must be different, got {', '.join(names)}"
            raise InvalidArgumentError(msg)
        unknown = sorted({str(node) for edge in edges for node in edge} - set(names))
        if unknown:
            msg = f"edges must join the nodes {', '.join(names)}; got {', '.join(unknown)}"
            raise InvalidArgumentError(msg)
        places = {name: number for number, name in enumerate(names)}
        parents = (
            tuple(sorted({places[cause] for cause, effect in edges if effect == name}))
            for name in names
        )
        return cls(names, tuple(parents))

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """From causes to effects, by name."""
        numbers = sorted((j, node) for node, parents in enumerate(self.parents) for j in parents)
        return tuple((self.names[cause], self.names[effect]) for cause, effect in numbers)

    def to_networkx(self) -> Any:
        """The graph as a `networkx.DiGraph`.

        Raises
        ------
        MissingDependencyError
            networkx is not installed.
        """
        try:
            import networkx as nx
        except ImportError as error:
            missing = require("networkx", "causal", "A graph as networkx.DiGraph")
            raise missing from error
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        graph.add_edges_from(self.edges)
        return graph

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph, see `dhsic.plots.causal_graph`."""
        return plots.causal_graph(self.parents, self.names, ax=ax)

    def records(self) -> list[dict[str, Any]]:
        """Every edge."""
        return [{"cause": cause, "effect": effect} for cause, effect in self.edges]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("graph", str(self)), ("nodes", ", ".join(self.names))]

    def _brief(self) -> list[str]:
        return [str(self), format_count(len(self.names), "node")]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.names, self.parents))

    def __str__(self) -> str:
        edges = ", ".join(f"{cause} -> {effect}" for cause, effect in self.edges)
        return printable(edges) or "no edges"


@cache
def enumerate_dags(m: int) -> tuple[Parents, ...]:
    """All directed acyclic graphs over m nodes: 1, 3, 25, 543, 29,281 for m = 1, ..., 5.

    Parameters
    ----------
    m : int
        Nodes, at most 5.

    Returns
    -------
    tuple of Parents
        Graphs of fewer edges first.

    References
    ----------
    .. [1] R. Robinson. Counting labeled acyclic digraphs. New directions in the theory of graphs,
       1973.

    Examples
    --------
    >>> enumerate_dags(2)
    (((), ()), ((), (0,)), ((1,), ()))
    """

    def grown(parents: Parents) -> Iterator[Parents]:
        """Graphs in which the next node has parents that do not descend from it."""
        node = len(parents)
        if node == m:
            yield parents
            return
        # A parent that descends from the node would close a cycle.
        others = [j for j in range(m) if j != node and node not in _ancestors(j, parents)]
        for chosen in _subsets(others):
            yield from grown((*parents, chosen))

    # By edges first, so that a graph comes after those that it contains.
    return tuple(sorted(grown(()), key=lambda parents: (sum(map(len, parents)), parents)))


def complete_dags(m: int) -> tuple[Parents, ...]:
    """The fully connected graphs over m nodes, one for every order of them.

    Parameters
    ----------
    m : int
        Nodes.

    Returns
    -------
    tuple of Parents
        As many as m!.

    Examples
    --------
    >>> complete_dags(2)
    (((), (0,)), ((1,), ()))
    """
    return tuple(
        tuple(tuple(sorted(order[: order.index(node)])) for node in range(m))
        for order in permutations(range(m))
    )


def _is_numbers(parents: object) -> bool:
    return isinstance(parents, Sequence) and all(
        isinstance(number, int | np.integer) for number in parents
    )


def _subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    sizes = range(len(items) + 1)
    return chain.from_iterable(combinations(items, size) for size in sizes)


def _ancestors(node: int, parents: Parents) -> set[int]:
    """A node and all that it descends from, where parents are known of the first nodes only."""
    ancestors, left = {node}, [node]
    while left:
        latest = left.pop()
        new = set(parents[latest]) - ancestors if latest < len(parents) else set()
        ancestors |= new
        left += new
    return ancestors


def _acyclic(parents: Parents) -> bool:
    """Whether no node descends from itself."""
    edges = ((node, j) for node, own in enumerate(parents) for j in own)
    return not any(node in _ancestors(j, parents) for node, j in edges)
