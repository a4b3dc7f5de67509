"""A test of independence, as a report has it."""

from __future__ import annotations

from dhsic.plots import null_distribution
from dhsic.report.parts import Cell, Facts, Note, Part, Picture, Section, Table, number
from dhsic.results import GridSummary, IndependenceTestResult, decision, short_spec

__all__ = ["tested_sections"]

_SIZE = (7.2, 4.0)  # inches

_MEANING = (
    "The p-value is the probability of a statistic at least as large under {0}, of rows that are "
    "exchangeable. Where {0} is not rejected, it is not shown either."
)
_EXPLORATORY = (
    "Kernels that were tried. The p-value of the test accounts for the choice among them; those of "
    "the table are of a combination by itself, and exploratory."
)


def tested_sections(result: IndependenceTestResult, alpha: float) -> tuple[str, list[Section]]:
    """The finding in a sentence, and the sections of a test."""
    lead = f"{result.hypothesis.capitalize()} {decision(result, alpha)} (p = {result.pvalue:.4g})"
    picture = Picture.drawn(
        lambda ax: null_distribution(result, alpha=alpha, ax=ax),
        _SIZE,
        "Histogram of the null distribution, with the statistic and the critical value.",
    )
    return lead, [
        Section("Result", [Facts([*result.summary(), ("level", f"{alpha:g}")]), picture]),
        Section.of(
            "Data and method",
            [_variables(result), _method(result), Note(_MEANING.format(result.hypothesis))],
        ),
        *([] if result.grid is None else [_kernels(result, result.grid)]),
    ]


def _variables(result: IndependenceTestResult) -> Part:
    rows = [(Cell(v.name), number(v.columns, ",d"), Cell(v.kernel)) for v in result.variables]
    return Table("Variables", ("variable", "columns", "kernel"), rows)


def _method(result: IndependenceTestResult) -> Part:
    facts = [
        ("rows", f"{result.n:,}"),
        ("estimator", f"{result.estimator} ({result.estimator_reason})"),
        ("null", f"{result.null} ({result.null_reason})"),
        ("measure", result.quantity),
        ("precision", result.precision),
    ]
    z, f = result.landmarks, result.features
    if z is not None:
        facts += [
            ("landmarks", f"{z.drawn:,} drawn, {z.kept} kept, {z.selection}, {z.pairing} pairing"),
            ("tolerance", f"{z.tolerance:.3g}, jitter {z.jitter:.3g}"),
        ]
    if f is not None:
        orthogonal = ", orthogonal" if f.orthogonal else ""
        facts.append(("features", f"{f.kind}{orthogonal}: {', '.join(map(str, f.counts))}"))
    return Facts(facts)


def _kernels(result: IndependenceTestResult, grid: GridSummary) -> Section:
    names = [v.name for v in result.variables]
    rows = []
    for place, tried in enumerate(grid.combinations):
        roles = [
            role
            for role, at in (("reference", grid.reference), ("strongest", grid.strongest))
            if at == place
        ]
        rows.append(
            [
                number(place + 1, "d"),
                *(Cell(short_spec(kernel)) for kernel in tried.kernels),
                number(tried.statistic),
                number(tried.standardised),
                number(tried.pvalue),
                Cell(", ".join(roles)),
            ]
        )
    header = (
        "no.",
        *(f"kernel of {name}" for name in names),
        "statistic",
        "standardised",
        "p",
        "role",
    )
    return Section("Kernels tried", [Note(_EXPLORATORY), Table("Kernels tried", header, rows)])
