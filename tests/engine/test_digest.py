"""Digests: every field counts, and what cannot be read by its fields is refused."""

import copy
import importlib
import math
import sys
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import dhsic
from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.digest import can_digest, difference, digest, plain
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
    *((), (1,), (1, 2), (2, 1), ((1,), 2), (1, (2,)), [], [1], [1, 2], {}, {"a": 1}, {"b": 1}),
    *(range(2), range(1, 2), slice(2), slice(1, 2), np.dtype("<f4"), np.dtype("<f8")),
    *(np.float64(1), np.float32(1), np.int64(1), np.array(1.0), np.array([1.0])),
    *(np.array([1]), np.array([1, 0]), np.array([[1, 0]]), np.array([[1], [0]])),
    *(np.zeros(0), np.zeros((0, 1)), np.zeros(1, np.float32), np.zeros(1, np.int32)),
    *(Pair(1, 2), OtherPair(1, 2), Pair(2, 1), Box(1), Box(2), Box(1, 1), Box((1,))),
    *(float, int, math.sqrt, math.exp, dhsic.hsic, dhsic.plan, Gaussian, Gaussian(), Laplacian()),
    *(Gaussian(gamma=1.0), Gaussian(gamma=2.0), Gaussian(gamma=1.0, origin=(0.0,))),
]


def test_digest__differs_for_different_values():
    assert len({digest(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_digest__is_the_same_for_equal_values():
    x = np.random.default_rng(0).standard_normal((5, 4))
    used = Box(3)
    assert used.double == 6
    assert digest(used) == digest(Box(3))
    assert digest(x) == digest(np.asfortranarray(x)) == digest(x.copy())
    assert digest(x[::2, 1:]) == digest(x[::2, 1:].copy())
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    for value in DIFFERENT:
        assert digest(value) == digest(copy.deepcopy(value))


class Plain:
    pass


def with_attribute():
    box = Box(1)
    object.__setattr__(box, "unseen", 2)
    return box


@pytest.mark.parametrize(
    "value",
    [
        *(object(), Plain(), Plain, lambda: 0, partial(int, 1), {1, 2}, b"bytes", 1j),
        *(np.array([None]), np.array(["a"]), np.array([(1,)], "i4,"), {1: 2}, {"is": 1}),
        *(with_attribute(), (1, [object()]), Box(object()), np.ma.array([1.0]), np.sum),
    ],
    ids=lambda value: type(value).__name__,
)
def test_digest__refuses_what_fields_do_not_say(value):
    assert not can_digest(value)
    with pytest.raises(TypeError, match=r"digested|no fields"):
        digest(value)


def test_difference__names_the_first_field():
    there = plain({"a": 1, "kernels": (Gaussian(gamma=1.0), Laplacian())})
    assert difference(there, copy.deepcopy(there)) is None
    here = plain({"a": 1, "kernels": (Gaussian(gamma=2.0), Laplacian())})
    assert difference(there, here) == ("kernels[0].gamma", 1.0, 2.0)
    other = plain({"a": 1, "kernels": (Laplacian(), Laplacian())})
    assert difference(there, other) == ("kernels[0]", "Gaussian", "Laplacian")
    assert difference(there, plain({"a": True, "kernels": ()}))[:2] == ("a", 1)
    assert difference({"a": 1}, {"a": 1, "b": 2}) == ("b", None, 2)
    assert difference({"a": 1, "b": 2}, {"a": 1}) == ("b", 2, None)
    assert difference([1, 2], [1]) == ("", [1, 2], [1])


def variants(value):
    """The value with one leaf changed, for every leaf; large arrays at one entry."""
    if is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            for changed in variants(getattr(value, one.name)):
                other = copy.copy(value)
                object.__setattr__(other, one.name, changed)
                yield other
    elif isinstance(value, tuple):
        rebuilt = type(value)._make if hasattr(value, "_make") else tuple
        for i, item in enumerate(value):
            for changed in variants(item):
                yield rebuilt([*value[:i], changed, *value[i + 1 :]])
        if not hasattr(value, "_make"):
            yield (*value, 0)
    elif isinstance(value, np.ndarray) and value.size:
        other = value.copy()
        other.flat[-1] = other.flat[-1] + 1
        yield other
    elif isinstance(value, np.dtype):
        yield np.dtype("f2")
    elif isinstance(value, bool) or value is None:
        yield 17
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield value + "'"
    else:
        yield Gaussian  # a class or function that is another


CASES = [
    ("nystrom-m", "multiplier", None),
    ("nystrom-m", "permutation", "gaussian"),
    ("nystrom-m", "spectral", "laplacian"),
    ("nystrom-hsic", "permutation", "gaussian"),
    ("rff-hsic", "multiplier", None),
    ("nfsic", "chi-square", None),
    ("nfsic", "permutation", "gaussian"),
    ("block-hsic", "normal", None),
    ("coco", "permutation", None),
    ("nocco", "multiplier", "gaussian"),
    ("sub-corr", "gamma", None),
    ("v-hsic", "multiplier", None),
    ("u-hsic", "permutation", "gaussian"),
    ("dcov", "permutation", None),
    ("sub-hsic", "gamma", None),
]


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("estimator", "null", "kernels"), CASES)
def test_digest__counts_every_field_of_what_runs(
    estimator, null, kernels, tmp_path, monkeypatch, rng
):
    determined = []
    shards = Checkpoint.shards

    def seen(self, name, count, determined_by):
        determined.append(determined_by)
        return shards(self, name, count, determined_by)

    monkeypatch.setattr(Checkpoint, "shards", seen)
    x = rng.standard_normal((20, 2))  # few rows: each is a leaf, changed by itself
    dhsic.independence_test(
        *(x, x[:, :1] + 1.0),
        estimator=estimator,
        null=null,
        kernels=kernels,
        rng=0,
        threads=1,
        checkpoint=str(tmp_path / "kept"),
    )
    assert determined
    for value in determined:
        digests = [digest(value)]
        for variant in variants(value):
            digests.append(digest(variant))
        assert len(digests) > 8
        assert len(set(digests)) == len(digests)


def test_digest__of_a_class_of_the_user_counts_its_source(tmp_path, monkeypatch):
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
        found.append(digest(importlib.import_module("own_kernel").Own(1.0)))
    assert found[0] == found[2] != found[1]


def test_digest__refuses_a_class_without_source():
    own = make_dataclass("Own", ["scale"])
    own.__module__ = "nowhere"
    with pytest.raises(TypeError, match="source cannot be read"):
        digest(own(1.0))
