"""States as files: what comes back is what was written, or nothing."""

import io
import json
import math
import pickle
import tracemalloc
from collections import namedtuple
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dhsic.engine.checkpoint import pack, unpack
from dhsic.engine.graph import Partial
from dhsic.engine.session import Differing, Extent
from dhsic.kernels import Gaussian

Moments = namedtuple("Moments", "first second")


def packed(value):
    pack(value, file := io.BytesIO())
    return file.getvalue()


def again(value):
    return unpack(packed(value))


@settings(max_examples=60)
@given(
    hnp.arrays(
        st.one_of(hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.boolean_dtypes()),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
    ),
    st.randoms(use_true_random=False),
)
def test_unpack__gives_arrays_back_with_their_order(array, random):
    axes = list(range(array.ndim))
    random.shuffle(axes)
    moved = array.transpose(axes)
    found = again(Partial((moved, 1), 0.5)).state[0]
    assert (found.dtype, found.shape) == (moved.dtype, moved.shape)
    assert found.tobytes() == moved.tobytes()
    assert found.flags.writeable
    for flag in ("c_contiguous", "f_contiguous"):
        assert getattr(found.flags, flag) or not getattr(moved.flags, flag)


VALUES = [
    *(None, True, 3, -(2**80), 0.1, -0.0, math.inf, "words", (), (1, (2.0, [None, "x"])), []),
    *(np.float64(0.1), np.float32(0.1), np.int64(3), np.bool_(True)),
    *(Gaussian(gamma=0.25, origin=(1.0,)), Partial(np.float64(1.5), 0.25)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_unpack__gives_values_back_with_their_types(value):
    found = again(value)
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


Local = namedtuple("Local", "x")


@pytest.mark.parametrize(
    "value",
    [
        *(Moments(1, 2), Local(1), object(), {1: 2}, {"a": 1}, {1}, b"x", 1j, len, Gaussian),
        *(np.array([None]), np.array(["a"]), np.array([(1,)], "i4,"), np.dtype(float)),
        *((1, Moments(1, 2)), Partial(Moments(1, 2), 0.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pack__refuses_other_types(value):
    with pytest.raises(TypeError, match="cannot be kept"):
        packed(value)


WHOLE = packed(Partial(Extent(np.arange(3.0), (Differing(1, np.ones(1), np.ones((1, 2))),)), 0.5))


def test_unpack__refuses_what_is_cut_short_or_altered():
    value = again(unpack(WHOLE))
    for data in (WHOLE[:length] for length in range(len(WHOLE))):
        with pytest.raises(ValueError, match="cannot be read"):
            unpack(data)
    for k in range(len(WHOLE)):
        data = WHOLE[:k] + bytes([WHOLE[k] ^ 1]) + WHOLE[k + 1 :]
        with suppress(ValueError):  # or it is of no account, as the time of a file of the archive
            assert repr(unpack(data)) == repr(value)


def forged(structure):
    """A file as someone may make it on purpose."""
    file = io.BytesIO()
    np.savez(file, np.array(json.dumps(structure)), np.zeros(1))
    return file.getvalue()


FORGED = [
    {"in": "os:system", "of": ["true"]},
    {"in": "subprocess:Popen", "of": ["true"]},
    {"in": "builtins:eval", "of": ["1"]},
    {"in": "dhsic.api:hsic", "of": []},
    {"in": "dhsic.engine.checkpoint:io.BytesIO", "of": []},
    {"in": "dhsic.engine.checkpoint:np.ndarray", "of": [[3]]},
    {"in": "dhsic.nowhere:Nothing", "of": []},
    {"in": "dhsic.engine.graph:Partial", "of": [1]},
    {"in": "dhsic.engine.graph:Partial", "of": 3},
    {"in": "ndarray", "at": 2, "order": [0]},
    {"in": "ndarray", "at": 1, "order": [0, 1]},
    {"in": "ndarray"},
    {},
]


@pytest.mark.parametrize("structure", FORGED, ids=json.dumps)
def test_unpack__makes_nothing_but_states(structure):
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(forged(structure))


def test_unpack__does_not_unpickle():
    objects = io.BytesIO()
    np.savez(objects, np.array([None]), allow_pickle=True)
    for data in (pickle.dumps((1, 2)), objects.getvalue()):
        with pytest.raises(ValueError, match="cannot be read"):
            unpack(data)
    assert unpack(forged(17)) == 17


def test_pack__holds_no_second_copy_of_a_state(tmp_path):
    state = np.ones(2**23)
    tracemalloc.start()
    with open(tmp_path / "state", "wb") as file:
        pack(state, file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2 * peak <= state.nbytes < (tmp_path / "state").stat().st_size
