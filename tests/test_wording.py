"""Docstrings begin with the thing that they describe, and a name means one thing."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import dhsic

PACKAGE = Path(dhsic.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in FILES}

START = r"""(?mx)
    (?: \A | [.!?]\s+ | \n\s*\n\s* | ^\s*[\w*,\ ]+\ :\ .*\n\s+ )  # a text, sentence or parameter
    (?: What | Of ) \b .*
"""


def docstrings(tree):
    """Texts that stand alone: of modules, classes, functions, and of the fields before them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@pytest.mark.parametrize(
    "text",
    [
        *("What a test takes.", "Rows. Of these some.", "A sum.\n\n    Of rows.\n"),
        "A sum.\n\n    Parameters\n    ----------\n    x : ndarray\n        Of rows.",
    ],
)
def test_start__is_found(text):
    assert re.search(START, text)


@pytest.mark.parametrize("text", ["Kernels of rows.", "Say what it is.", "Office hours."])
def test_start__is_not_found_elsewhere(text):
    assert not re.search(START, text)


def test_docstrings__no_sentence_begins_with_what_or_of():
    found = {
        f"{name}: {start.group().strip()}"
        for name, tree in TREES.items()
        for text in docstrings(tree)
        for start in re.finditer(START, text)
    }
    assert not found


def test_names__of_classes_and_functions_are_of_one_module():
    modules = defaultdict(set)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                modules[node.name].add(name)
    assert not {name: places for name, places in modules.items() if len(places) > 1}


def test_names__of_types_have_one_meaning():
    """Short names of types, as `Vector`, which modules define anew."""
    meanings = defaultdict(set)
    for tree in TREES.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.fullmatch(r"[A-Z][a-z]\w*", name):
                    meanings[name].add(ast.unparse(node.value))
            if isinstance(node, ast.ClassDef):
                meanings[node.name].add(node.name)
    assert not {name: meant for name, meant in meanings.items() if len(meant) > 1}


def test_names__of_classes_are_of_one_module_with_or_without_an_underscore():
    modules = defaultdict(set)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].add(name)
    assert not {name: places for name, places in modules.items() if len(places) > 1}
