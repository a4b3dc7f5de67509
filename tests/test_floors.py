"""The house: a unit imports from units below it, and Dask stays where it belongs."""

import ast
from pathlib import Path

import pytest

from tests.conftest import LONG_FILES, TESTS

ROOT = Path(__file__).parents[1] / "dhsic"
UNITS = [
    *(
        "_text",
        "errors",
        "_version",
        "_files",
        "_validation",
        "_random",
        "_work",
        "_drawing",
        "_plugins",
        "results",
    ),
    *("kernels", "linalg", "nulls", "analysis"),
    *("engine", "io", "_progress"),
    *("landmarks", "features", "estimators"),
    *("_rows", "_arguments", "_fields", "api", "witness", "plots"),
    *("sensitivity", "ranking"),
    *("embedding", "twosample", "interaction"),
    *("sensitivity", "ranking", "conditional", "causal"),
    *("embedding", "twosample"),
    *("pairwise", "integrations", "cluster", "bench", "report", "cli", "__main__"),
]
DASK_UNITS = {"engine", "io", "cluster"}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def unit_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def units_imported(source):
    names = [name.split(".") for name in imported_modules(source)]
    return {parts[1] for parts in names if parts[0] == "dhsic" and len(parts) > 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file__imports_from_lower_floors_only(path):
    own = UNITS.index(unit_of(path))
    for unit in units_imported(path.read_text()):
        if unit in UNITS:
            assert UNITS.index(unit) <= own, f"{path} imports {unit}, which is above it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file__imports_dask_only_where_it_belongs(path):
    roots = {name.split(".")[0] for name in imported_modules(path.read_text())}
    if roots & {"dask", "distributed"}:
        assert unit_of(path) in DASK_UNITS


def test_floors__name_every_unit():
    assert {unit_of(path) for path in FILES} == set(UNITS)


def test_long_files__are_there():
    assert [name for name in LONG_FILES if not (TESTS / name).is_file()] == []


def test_check__sees_an_import_from_above():
    assert units_imported("from dhsic.api import hsic") == {"api"}
    assert "cli" in units_imported("def f():\n    from dhsic import cli")
