"""Tokens: every field counts, and what cannot be read by its fields is refused.

A checkpoint finds its parts by them: parts of another pass would be a silent wrong answer, which no
public call shows as long as passes differ in something else as well.
"""

import copy
import importlib
import math
import sys
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import dhsic
from dhsic.engine.checkpoint import (
    Checkpoint,
    CheckpointWarning,
    difference,
    token_of,
    written_out,
)
from dhsic.io.urls import Folder
from dhsic.kernels import Gaussian, Laplacian


class Pair(NamedTuple):
    first: Any
    second: Any


class OtherPair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Box:
    value: Any
    hidden: int = field(default=0, repr=False, compare=False)

    @cached_property
    def double(self):
        return 2 * self.value


DIFFERENT = [
    *(None, False, True, 0, 1, 0.0, 1.0, -0.0, "", "1", "None", math.nan, math.inf),
    *((), (1,), (1, 2), (2, 1), ((1,), 2), (1, (2,)), {}, {"a": 1}, {"b": 1}),
    *(range(2), range(1, 2), slice(2), slice(1, 2), np.dtype("<f4"), np.dtype("<f8")),
    *(np.float64(1), np.float32(1), np.int64(1), np.array(1.0), np.array([1.0])),
    *(np.array([1]), np.array([1, 0]), np.array([[1, 0]]), np.array([[1], [0]])),
    *(np.zeros(0), np.zeros((0, 1)), np.zeros(1, np.float32), np.zeros(1, np.int32)),
    *(Pair(1, 2), OtherPair(1, 2), Pair(2, 1), Box(1), Box(2), Box(1, 1), Box((1,))),
    *(float, int, math.sqrt, math.exp, dhsic.hsic, dhsic.plan, Gaussian, Gaussian(), Laplacian()),
    *(Gaussian(gamma=1.0), Gaussian(gamma=2.0), Gaussian(gamma=1.0, origin=(0.0,))),
]


def test_token__differs_for_different_values():
    assert len({token_of(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_token__is_the_same_for_equal_values():
    x = np.random.default_rng(0).standard_normal((5, 4))
    used = Box(3)
    assert used.double == 6
    assert token_of(used) == token_of(Box(3))
    assert token_of(x) == token_of(np.asfortranarray(x)) == token_of(x.copy())
    assert token_of(x[::2, 1:]) == token_of(x[::2, 1:].copy())
    assert token_of({"a": 1, "b": 2}) == token_of({"b": 2, "a": 1})
    for value in DIFFERENT:
        assert token_of(value) == token_of(copy.deepcopy(value))


class Plain:
    pass


class Hiding(Box):
    def __init__(self, value):
        super().__init__(0)
        object.__setattr__(self, "other", value)


@pytest.mark.parametrize(
    "value",
    [
        *(object(), Plain(), lambda: 0, partial(int, 1), {1, 2}, b"bytes", 1j),
        *(np.array([None]), (1, [object()]), Box(object()), np.ma.array([1.0]), {1: 2}, Hiding(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_token__refuses_what_fields_do_not_say(value):
    with pytest.raises(
        TypeError, match=r"can(not)? (identify|be told)|does not say|no fields: other"
    ):
        token_of(value)


def test_difference__names_the_first_field():
    there = written_out({"a": 1, "kernels": (Gaussian(gamma=1.0), Laplacian())})
    assert difference(there, copy.deepcopy(there)) is None
    here = written_out({"a": 1, "kernels": (Gaussian(gamma=2.0), Laplacian())})
    assert difference(there, here) == ("kernels[0].gamma", 1.0, 2.0)
    other = written_out({"a": 1, "kernels": (Laplacian(), Laplacian())})
    assert difference(there, other) == ("kernels[0]", "Gaussian", "Laplacian")
    assert difference(there, written_out({"a": True, "kernels": ()}))[:2] == ("a", 1)
    assert difference({"a": 1}, {"a": 1, "b": 2}) == ("b", None, 2)
    assert difference({"a": 1, "b": 2}, {"a": 1}) == ("b", 2, None)
    assert difference([1, 2], [1]) == ("", [1, 2], [1])


def keys_of(folder, **changes):
    """Names of the folders of a pass under which the parts of some run are kept."""
    run = {"seed": 0, **changes.pop("run", {})}
    part, arguments = changes.pop("part", None), {"name": "sums", "count": 3, "determined_by": 1}
    checkpoint = replace(Checkpoint.open(Folder.at(str(folder), "it"), run), part=part)
    return checkpoint.shards(**(arguments | changes)).key


def test_key__of_a_pass_is_of_all_that_determines_it(tmp_path):
    """Passes of the same name over other variables of a run, made on the way, have keys apart."""
    changes = [
        *({}, {"name": "means"}, {"count": 4}, {"determined_by": 2}, {"part": "forward"}),
        *({"part": "backward"}, {"part": ("forward", "residuals")}, {"run": {"rows": 3}}),
    ]
    found = [keys_of(tmp_path / str(number), **one) for number, one in enumerate(changes)]
    assert len(set(found)) == len(changes)
    assert found == [keys_of(tmp_path / f"b{k}", **one) for k, one in enumerate(changes)]
    assert all(len(one) == 32 for one in found)


def test_keep__makes_a_value_once_and_again_where_it_is_broken(tmp_path):
    checkpoint, made = Checkpoint.open(Folder.at(str(tmp_path), "it"), {"seed": 0}), []

    def make():
        made.append(1)
        return np.arange(3.0), "words"

    for determined_by in (1, 1, 2, 2):
        value = checkpoint.keep("value", make, determined_by)
        np.testing.assert_array_equal(value[0], np.arange(3.0))
    assert len(made) == 2
    for unknown in (object(), object()):
        checkpoint.keep("value", make, unknown)
    assert len(made) == 4
    (first, *_) = sorted(tmp_path.glob("*/shard-0000"))
    first.write_bytes(b"broken")
    with pytest.warns(CheckpointWarning, match="cannot be used and is computed again"):
        assert [len(checkpoint.keep("value", make, which)) for which in (1, 2)] == [2, 2]
    assert len(made) == 5


def test_token__of_a_class_of_the_user_counts_its_source(tmp_path, monkeypatch):
    text = (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Own:\n    scale: float\n"
    )
    found = []
    for number, body in enumerate(("return 1", "return 2", "return 1")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "own_kernel.py").write_text(f"{text}\n    def value(self):\n        {body}\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "own_kernel", raising=False)
        importlib.invalidate_caches()
        found.append(token_of(importlib.import_module("own_kernel").Own(1.0)))
    assert found[0] == found[2] != found[1]


def test_token__refuses_a_class_without_source(monkeypatch):
    own = make_dataclass("Own", ["scale"])
    own.__module__ = "nowhere"
    with pytest.raises(TypeError, match="does not say what it does"):
        token_of(own(1.0))
    monkeypatch.setitem(sys.modules, "nowhere", SimpleNamespace(Own=own))
    with pytest.raises(TypeError, match="cannot be read: put it in a file"):
        token_of(own(1.0))
