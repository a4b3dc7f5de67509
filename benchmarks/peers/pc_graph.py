"""PC of causal-learn and of pgmpy on a known graph of eight nodes, with dhsic's tests and theirs.

Every node is normal noise plus a function of its parents: 0.8 x where the graph is linear, and
else tanh(1.5 x) of some parents and x^2 / 2 of others, which leaves no correlation. `missing` and
`extra` count the edges of the skeleton, and `turned` those of the v-structures whose directions
are wrong. `tests` counts those of dhsic and `of all rows` the ones that a first test of few rows
did not settle, `seconds` is processor time, and `peak MiB` the largest resident size of the
process, which runs one search. Needs the extra `discovery`.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.study import Cell, Row, Study
from dhsic.integrations import PgmpyTest, PValue, causal_learn_test

Edge = tuple[int, int]

NODES = 8
EDGES: tuple[Edge, ...] = ((0, 2), (1, 2), (2, 3), (3, 4), (1, 5), (5, 6), (4, 7), (6, 7))
COLLIDERS: tuple[Edge, ...] = ((0, 2), (1, 2), (4, 7), (6, 7))
SQUARED: tuple[Edge, ...] = ((1, 2), (1, 5), (6, 7))
LEVEL = 0.01


@dataclass(frozen=True)
class Counted(PValue):
    """A test that remembers of how many rows it was, of every call the first and what followed."""

    sizes: list[int] = field(default_factory=list, repr=False, compare=False)

    def of_all(
        self, x: Any, y: Any, *given: Any, checkpoint: bool = True
    ) -> dhsic.IndependenceTestResult:
        self.sizes.append(len(x))
        return super().of_all(x, y, *given, checkpoint=checkpoint)


# Approximate p-values, which take a tenth of the time of exact ones.
DHSIC = Counted(threads=1, marginal={"null": "gamma"})


def draw(n: int, shape: str, seed: int) -> NDArray[np.float64]:
    """Rows of the graph, shape (n, 8)."""
    x = np.random.default_rng([n, seed]).standard_normal((n, NODES))
    for cause, effect in sorted(EDGES, key=lambda edge: edge[1]):
        given = x[:, cause]
        if shape == "linear":
            x[:, effect] += 0.8 * given
        elif (cause, effect) in SQUARED:
            x[:, effect] += 0.5 * given**2
        else:
            x[:, effect] += np.tanh(1.5 * given)
    return x


def by_causal_learn(x: NDArray[np.float64], test: str) -> tuple[set[Edge], set[Edge]]:
    """Edges and directed edges that causal-learn finds."""
    from causallearn.search.ConstraintBased.PC import pc

    name = causal_learn_test(DHSIC) if test == "dhsic" else test
    found = pc(x, LEVEL, name, show_progress=False).G.graph
    pairs = [(a, b) for a in range(NODES) for b in range(NODES) if a != b]
    directed = {(a, b) for a, b in pairs if found[b, a] == 1 and found[a, b] == -1}
    return {(a, b) for a, b in pairs if a < b and (found[a, b] or found[b, a])}, directed


def by_pgmpy(x: NDArray[np.float64], test: str) -> tuple[set[Edge], set[Edge]]:
    """Edges and directed edges that pgmpy finds."""
    import pandas as pd
    from pgmpy.causal_discovery import PC

    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(NODES)])
    asked = PgmpyTest(frame, DHSIC) if test == "dhsic" else test
    search = PC(ci_test=asked, significance_level=LEVEL, n_jobs=1, show_progress=False)
    graph = search.fit(frame).causal_graph_
    directed = {(int(a[1:]), int(b[1:])) for a, b in graph.directed_edges}
    edges = {(int(a[1:]), int(b[1:])) for a, b in graph.edges()}
    return {(min(edge), max(edge)) for edge in edges}, directed


SEARCHES = {"causal-learn": by_causal_learn, "pgmpy": by_pgmpy}
TESTS = {"causal-learn": ("dhsic", "fisherz", "rcit"), "pgmpy": ("dhsic", "pearsonr")}


def row(library: str, test: str, shape: str, n: int) -> dict[str, Any]:
    """One search."""
    warnings.simplefilter("ignore")
    x = draw(n, shape, 0)
    DHSIC.sizes.clear()
    began = time.process_time()
    edges, directed = SEARCHES[library](x, test)
    seconds = time.process_time() - began
    true = {(min(edge), max(edge)) for edge in EDGES}
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "missing": len(true - edges),
        "extra": len(edges - true),
        "turned": len(set(COLLIDERS) - directed),
        "tests": DHSIC.sizes.count(DHSIC.sizes[0]) if DHSIC.sizes else "",
        "of all rows": DHSIC.sizes.count(n) if DHSIC.sizes else "",
        "seconds": seconds,
        "peak MiB": size / (2**20 if sys.platform == "darwin" else 2**10),
    }


def measure(cell: Cell, run: int) -> Row:
    """One search in a process of its own."""
    del run
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        library, test = cell.test
        return alone.submit(row, library, test, cell.data, cell.n).result()


def rows(cell: Cell, found: Sequence[Row]) -> Iterator[Row]:
    yield found[0]


STUDY = Study(
    name="pc_graph",
    title="Does PC of causal-learn and of pgmpy find a known graph of eight nodes?",
    data=dict.fromkeys(("linear", "nonlinear")),
    methods={f"{library}, {test}": (library, test) for library in TESTS for test in TESTS[library]},
    sizes=(20_000, 1_000_000),
    measure=measure,
    columns=("missing", "extra", "turned", "tests", "of all rows", "seconds", "peak MiB"),
    rows=rows,
    follows_defaults=lambda cell: "dhsic" in cell.test,
    small={"data": ["nonlinear"], "methods": ["causal-learn, dhsic"], "sizes": [300]},
    in_pool=False,
)
