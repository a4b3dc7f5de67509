"""Small changes of a package are made in a copy, and tests that run them are run there."""

import csv
import textwrap

import pytest
from click.testing import CliRunner

from benchmarks.mutation import covering, mutants
from benchmarks.mutation.covering import Covering, copied, record, run_tests
from benchmarks.mutation.mutations import mutated, mutations_of

TOY = '''
"""A toy of 3 functions."""

LEAST = 2


def is_large(x):
    """Whether x is above 2."""
    return x > LEAST


def clipped(x):
    if x < 0:
        return 0
    return x


def unused(x):
    return x + 1
'''
TESTS = """
from dhsic.toy import clipped, is_large


def test_is_large():
    assert is_large(5)
    assert not is_large(0)


def test_clipped():
    assert (clipped(-3), clipped(0), clipped(4)) == (0, 0, 4)


def test_fails():
    assert False
"""
ENDS = """
import os
import time


def test_sleeps():
    time.sleep(600)


def test_crashes():
    os._exit(3)
"""
EQUIVALENT = """
file,scope,mutation,number,reason
dhsic/toy.py,clipped,x < 0 -> (x <= 0),0,0 is 0 either way
"""
EXPECTED = {
    ("2 -> (1)", "0"): "survived",
    ("2 -> (3)", "0"): "survived",
    ("x > LEAST -> (x >= LEAST)", "0"): "survived",
    ("x < 0 -> (not (x < 0))", "0"): "killed",
    ("x < 0 -> (x <= 0)", "0"): "equivalent",
    ("0 -> (1)", "0"): "survived",  # of x < 0
    ("0 -> (-1)", "0"): "survived",
    ("0 -> (1)", "1"): "killed",  # of return 0
    ("0 -> (-1)", "1"): "killed",
    ("x + 1 -> (x - 1)", "0"): "not covered",
    ("1 -> (0)", "0"): "not covered",
    ("1 -> (2)", "0"): "not covered",
}


@pytest.fixture(autouse=True)
def little_imported_before(monkeypatch):
    monkeypatch.setattr(covering, "_IMPORTED_ONCE", ["pytest", "coverage"])


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "checkout"
    files = {
        "dhsic/__init__.py": "",
        "dhsic/toy.py": TOY,
        "tests/__init__.py": "",
        "tests/test_toy.py": TESTS,
        "tests/ends.py": ENDS,
        "benchmarks/mutation/equivalent_mutants.csv": EQUIVALENT,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.lstrip())
    return root


def run(root, out, *options):
    options = ["--root", root, "--work", root.parent / "work", "--out", out, *options]
    done = CliRunner().invoke(mutants.main, [str(one) for one in options], catch_exceptions=False)
    assert done.exit_code == 0
    with out.open() as file:
        return list(csv.DictReader(file)), done.output


@pytest.mark.nightly
def test_mutants__are_killed_where_a_test_notices_them(root, tmp_path, monkeypatch):
    out = tmp_path / "mutants.csv"
    few, _ = run(root, out, "--count", 4)
    table, said = run(root, out)
    assert table[:4] == few  # a larger sample goes on from a smaller one
    assert {(row["mutation"], row["number"]): row["outcome"] for row in table} == EXPECTED
    assert {row["by"] for row in table if row["outcome"] == "killed"} == {
        "tests/test_toy.py::test_clipped"
    }
    assert "3 of 12 killed, 1 equivalent, 3 not covered" in said
    assert (root / "dhsic/toy.py").read_text() == TOY.lstrip()
    assert (tmp_path / "work/tree/dhsic/toy.py").read_text() == TOY.lstrip()

    sharper = TESTS.replace("not is_large(0)", "is_large(3) and not is_large(2)")
    (root / "tests/test_toy.py").write_text(sharper)
    table, said = run(root, out, "--again")
    assert "6 of 12 killed, 1 equivalent, 3 not covered" in said

    monkeypatch.setattr(mutants, "run_tests", None)  # all is known
    assert run(root, out)[0] == table
    assert [row["mutation"] for row in run(root, out, "--count", 2)[0]] == [
        row["mutation"] for row in few[:2]
    ]


def test_tests__that_fail_take_too_long_or_crash_are_told(root, tmp_path):
    tree, file = tmp_path / "tree", "tests/test_toy.py"
    copied(root, tree)
    ran = run_tests(tree, [f"{file}::test_clipped", f"{file}::test_is_large"], 60.0)
    assert list(ran.passed) == [f"{file}::test_clipped", f"{file}::test_is_large"]
    assert ran.failed is None
    assert run_tests(tree, [file], 60.0).failed == f"{file}::test_fails"
    assert run_tests(tree, [f"{file}::test_nothing"], 60.0).failed == "import"
    assert run_tests(tree, ["tests/ends.py::test_sleeps"], 1.0).failed == "time limit"
    assert run_tests(tree, ["tests/ends.py::test_crashes"], 60.0).failed == "crash"


def test_covering__knows_the_tests_of_a_line(root, tmp_path):
    tree, kept = tmp_path / "tree", tmp_path / "kept"
    copied(root, tree)
    assert record(tree, "tests/test_toy.py", kept, 60.0).failed == "tests/test_toy.py::test_fails"
    assert record(tree, "tests/test_toy.py", kept, 60.0) is None
    lines = TOY.lstrip().splitlines()
    found = Covering(tree, kept)

    def of(line):
        numbers = None if line is None else [1 + lines.index(line)]
        return [name.split("::")[1] for name in found.tests_of("dhsic/toy.py", numbers)]

    assert of("    return x > LEAST") == ["test_is_large"]
    assert of("    return x") == ["test_clipped"]
    assert of("    return x + 1") == []
    assert sorted(of(None)) == ["test_clipped", "test_is_large"]
    assert "dhsic/toy.py" not in found.tests_of("dhsic/toy.py", None)
    (tree / "dhsic/told.py").write_text('"""A module.\n\n>>> 1 + 1\n2\n"""\n')
    assert [*found.tests_of("dhsic/told.py", None)] == ["dhsic/told.py"]
    assert [*run_tests(tree, ["dhsic/told.py"], 60.0).passed] == ["dhsic/told.py::dhsic.told"]
    (tree / "dhsic/toy.py").write_text("\n".join(["", *lines]))
    assert sorted(of("    return x")) == ["test_clipped", "test_is_large"]


SOURCE = '''
"""A module of 1 docstring."""

from typing import Literal

__all__ = ["A1"]
Kind = Literal[1, 2]


@decorated(3)
class A1(Base[4]):
    """Not 5."""

    field: int | None = 6


def f(x: Literal[7], y: float = 1.5) -> int | None:
    """Not 8."""
    if x is not y and not x:
        msg = f"not {x + 9}"
        raise ValueError(msg)
    x += -1
    x.sort()
    return min(x[1:y]) if all(y) else cast(int | None, y @ x)
'''
CHANGES = """
A1: 6 -> (5)
A1: 6 -> (7)
f: 1.5 -> (0.5)
f: 1.5 -> (2.5)
f: x is not y -> (x is y)
f: x is not y and not x -> (not (x is not y and (not x)))
f: x is not y and not x -> (x is not y or not x)
f: not x -> bool(x)
f: raise ValueError(msg) -> pass
f: x += -1 -> x -= -1
f: -1 -> (-2)
f: -1 -> (0)
f: x.sort() -> pass
f: min -> max
f: min(x[1:y]) if all(y) else cast(int | None, y @ x) -> ((cast(int | None, y @ x)) if (all(y)) else (min(x[1:y])))
f: 1 -> (0)
f: 1 -> (2)
f: y -> (y) + 1
f: all -> any
"""  # noqa: E501


def test_mutations__leave_texts_and_types_as_they_are():
    source = SOURCE.lstrip()
    found = mutations_of(source)
    assert [f"{one.scope}: {one}" for one in found] == CHANGES.strip().splitlines()
    assert [one.at_import for one in found] == [True] * 4 + [False] * 15


def test_mutations__change_one_place_of_the_text():
    source = textwrap.dedent(
        """
        def f(é):
            g("é", é - 1, é - 1)  # é
            return (é.mean()
                    <= 2)
        """
    )
    found = mutations_of(source)
    assert [one.number for one in found if one.old == "é - 1"] == [0, 1]
    made = {mutated(source, one) for one in found}
    assert source.replace("é - 1)", "(é + 1))") in made
    assert source.replace("mean", "sum") in made
    assert source.replace("é.mean()\n            <= 2", "(é.mean() < 2)") in made
    assert source.replace('g("é", é - 1, é - 1)', "pass") in made
    (last,) = (one for one in found if "<" in one.new)
    assert (last.line, last.last_line) == (4, 5)
