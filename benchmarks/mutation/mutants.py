"""How many small changes of the package the tests notice.

A seeded sample of all changes (comparisons, operators, numbers, conditions, branches, statements)
is made one by one in a copy of the checkout, and the tests that run the changed line are run there
until one fails, the closest and the quickest first. A file of many changes has a weight that grows
with the root of their number, and pictures and reports a quarter of that. A larger sample has all
of a smaller one, and edits of one file leave the draws of the others.

First every file of tests is run once with its lines noted, unless it is the same as the last time.
Writes benchmarks/results/mutants.csv, and goes on where it stopped; with --again those that
survived are tried once more. Changes that no test can notice are in
benchmarks/mutation/equivalent_mutants.csv, each with the reason.

    python -m benchmarks run mutants
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click

from benchmarks.mutation.covering import Covering, copied, record, run_tests, written
from benchmarks.mutation.mutations import Mutation, mutated, mutations_of
from benchmarks.shared.output import keys_of, read_csv, write_csv

_PICTURES = ("plots", "report")
_KEYS = ("file", "scope", "mutation", "number")
_START = 60.0  # seconds that a process of tests may take before its first
_PATIENCE = 10.0  # times the seconds that the tests took when they were noted
_MOST_TESTS = 400


@dataclass(frozen=True)
class Mutant:
    """A change of one file."""

    file: str
    mutation: Mutation

    @property
    def told(self) -> dict[str, Any]:
        """What tells it from all others, whatever its line."""
        one = self.mutation
        return {
            "file": self.file,
            "scope": one.scope,
            "mutation": str(one),
            "number": one.number,
        }

    def key(self, seed: int, weight: float) -> float:
        """The least keys make the sample (Efraimidis and Spirakis 2006)."""
        text = "\0".join([str(seed), *map(str, self.told.values())])
        drawn = int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) + 1
        return -math.log(drawn / 2**56) / weight


def sample(root: Path, files: str, seed: int, count: int) -> list[Mutant]:
    """So many of all mutants of some files."""
    keyed: list[tuple[float, Mutant]] = []
    for path in sorted(root.glob(files)):
        file = path.relative_to(root)
        found = [Mutant(str(file), one) for one in mutations_of(path.read_text(encoding="utf-8"))]
        weight = 1.0 / math.sqrt(max(len(found), 1))
        weight *= 0.25 if file.parts[1] in _PICTURES else 1.0
        keyed += [(one.key(seed, weight), one) for one in found]
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])[:count]]


def within(tests: Mapping[str, float], seconds: float) -> dict[str, float]:
    """The first of them that take no longer in all, at least one."""
    total = 0.0
    kept: dict[str, float] = {}
    for name, one in list(tests.items())[:_MOST_TESTS]:
        total += one
        if kept and total > seconds:
            break
        kept[name] = one
    return kept


@dataclass(frozen=True)
class Trials:
    """Where mutants are made, and what is known of their tests."""

    tree: Path
    covering: Covering
    seconds: float

    def row(self, number: int, mutant: Mutant) -> dict[str, Any]:
        """Make one, run its tests, unmake it."""
        one, path = mutant.mutation, self.tree / mutant.file
        lines = None if one.at_import else range(one.line, one.last_line + 1)
        known = self.covering.tests_of(mutant.file, lines)
        tests = within(known, self.seconds)
        if not tests:
            return told(mutant, "not covered")
        source, began = path.read_text(encoding="utf-8"), time.monotonic()
        written(path, mutated(source, one), number)
        try:
            limit = _START + _PATIENCE * sum(tests.values())
            ran = run_tests(self.tree, list(tests), limit)
        finally:
            written(path, source, 0)
        outcome = "survived" if ran.failed is None else "killed"
        took = time.monotonic() - began
        return told(mutant, outcome, ran.failed or "", len(tests), len(known), took)


def told(
    mutant: Mutant, outcome: str, by: str = "", tests: int = 0, of: int = 0, seconds: float = 0.0
) -> dict[str, Any]:
    """A row of the table: tests that ran until it was killed are among `tests` of all `of`."""
    found = {"outcome": outcome, "by": by, "tests": tests, "of": of, "seconds": seconds}
    return {**mutant.told, "line": mutant.mutation.line, **found}


def rows(
    trials: Trials, mutants: list[Mutant], done: list[Mapping[str, Any]], hopeless: set[Any]
) -> Iterator[Mapping[str, Any]]:
    """What is known of every mutant, and what is found now."""
    known = {keys_of(row, _KEYS): row for row in done}
    for number, mutant in enumerate(mutants, start=1):
        key = keys_of(mutant.told, _KEYS)
        if key in hopeless:
            yield told(mutant, "equivalent")
        else:
            yield known.get(key) or trials.row(number, mutant)


def score(table: list[Mapping[str, Any]]) -> str:
    """How many were killed, of those that can be."""
    outcomes = [row["outcome"] for row in table]
    killed, equivalent = outcomes.count("killed"), outcomes.count("equivalent")
    share = killed / max(len(outcomes) - equivalent, 1)
    return (
        f"{killed} of {len(outcomes)} killed, {equivalent} equivalent, "
        f"{outcomes.count('not covered')} not covered: {share:.1%}"
    )


def note_tests(root: Path, tree: Path, kept: Path, patterns: tuple[str, ...], limit: float) -> None:
    """Run the files of tests that are new or changed."""
    files = {str(p.relative_to(tree)) for pattern in patterns for p in tree.glob(pattern)}
    for file in sorted(files):
        began = time.monotonic()
        if ran := record(tree, file, kept, limit):
            took, failed = time.monotonic() - began, ran.failed and f", {ran.failed} failed"
            click.echo(f"{file}: {len(ran.passed)} tests in {took:.0f} s{failed or ''}")


@click.command(help=__doc__)
@click.option("--count", default=200, help="How many mutants.")
@click.option("--seed", default=0)
@click.option("--files", default="dhsic/**/*.py", help="Those that are changed.")
@click.option("--seconds", default=60.0, help="Of tests for each, as they took unchanged.")
@click.option("--again", is_flag=True, help="Try those that survived once more.")
@click.option("--tests", multiple=True, default=("tests/**/test_*.py",), help="Files of tests.")
@click.option("--file-seconds", default=300.0, help="Leave out files of tests that take longer.")
@click.option("--root", default=".", type=Path, help="The checkout.")
@click.option("--work", default=".mutants", type=Path, help="The copy, and what is noted of tests.")
@click.option("--out", default="benchmarks/results/mutants.csv")
def main(
    count: int,
    seed: int,
    files: str,
    seconds: float,
    again: bool,
    tests: tuple[str, ...],
    file_seconds: float,
    root: Path,
    work: Path,
    out: str,
) -> None:
    root, work = root.absolute(), work.absolute()
    tree, kept = work / "tree", work / "tests"
    copied(root, tree)
    note_tests(root, tree, kept, tests, file_seconds)
    listed = read_csv(str(root / "benchmarks/mutation/equivalent_mutants.csv"))
    hopeless = {keys_of(row, _KEYS) for row in listed}
    done = [row for row in read_csv(out) if not again or row["outcome"] == "killed"]
    trials = Trials(tree, Covering(tree, kept), seconds)
    write_csv(out, rows(trials, sample(root, files, seed, count), done, hopeless))
    click.echo(score(read_csv(out)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process of tests is left
    main()
