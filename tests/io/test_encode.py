"""Values of any type become numbers, and labels codes, wherever values are missing."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dhsic.errors import DataError
from dhsic.io.encode import encode
from dhsic.io.forms import open_one
from dhsic.io.frames import as_frame, frame_source

NAN = float("nan")  # another object than that of NumPy
MISSING = (None, np.nan, NAN, np.float32("nan"), Decimal("nan"), pd.NA, pd.NaT)


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize("gone", MISSING, ids=repr)
def test_labels__have_codes_in_the_order_in_which_they_appear(gone):
    found = encode(objects(["v", gone, "u", "v", None]), "x")
    np.testing.assert_array_equal(found.values, [0.0, np.nan, 1.0, 0.0, np.nan])
    assert (found.kind, found.categories) == ("category", ("v", "u"))


@pytest.mark.parametrize("gone", MISSING, ids=repr)
def test_booleans__that_miss_some_are_booleans(gone):
    found = encode(objects([True, gone, np.bool_(False)]), "x")
    np.testing.assert_array_equal(found.values, [1.0, np.nan, 0.0])
    assert found.kind == "boolean"
    assert encode(objects([True, np.bool_(False)]), "x").values.dtype == bool


def test_numbers__that_no_float_holds_are_refused():
    with pytest.raises(DataError, match=r"x must hold numbers between -1.8e308 and 1.8e308"):
        encode(objects([10**400, 1.5]), "x")


@pytest.mark.parametrize("gone", MISSING, ids=repr)
def test_numbers__that_miss_some_are_numbers(gone):
    found = encode(objects([1, gone, Decimal("2.5"), np.float32(3)]), "x")
    np.testing.assert_array_equal(found.values, [1.0, np.nan, 2.5, 3.0])
    assert found.kind == "number"
    assert encode(objects([1, 2]), "x").values.dtype.kind == "i"


IDS = [2**60, 2**60 + 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: [*IDS, None],
        lambda: [*IDS, np.nan],
        lambda: [*IDS, 0.5],
        lambda: [[*IDS], [0.5, 1]],
        lambda: [2**53 + 1, None],
        lambda: [-(2**53) - 1, None],
        lambda: [2**63 + 1, -1],
        lambda: [2**70 + 1, 1],
        lambda: objects([*IDS, None]),
        lambda: objects([np.int64(IDS[0]), 0.5]),
        lambda: pd.Series([*IDS, None], dtype="Int64"),
        lambda: pd.DataFrame({"a": pd.Series([*IDS, None], dtype="Int64"), "b": [1, 2, 3]}),
        lambda: pd.DataFrame({"a": pd.Series([*IDS, None], dtype="Int64")}),
        lambda: pd.DataFrame({"a": IDS, "b": [0.5, 1.5]}),
        lambda: {"a": np.array(IDS), "b": np.array([0.5, 1.5])},
        lambda: {"a": np.array(IDS), "b": np.array(IDS, np.uint64)},
    ],
)
def test_numbers__that_lose_digits_are_refused(make):
    with pytest.raises(DataError, match=r"has integers beyond 2\*\*53.*: subtract an offset"):
        open_one(make(), "x")


@pytest.mark.parametrize(
    "x", [[2**53, None], [2.0**60, 0.5], [1e300, 1, None], {"a": np.array(IDS), "b": [1, 2]}]
)
def test_numbers__that_keep_their_digits_are_taken(x):
    read = open_one(x, "x").read(0, 2)
    assert read[0, 0] == (2**60 if isinstance(x, dict) else x[0])


def test_nothing__is_missing_numbers():
    assert np.isnan(encode(objects([None, pd.NA]), "x").values).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([True, 1, 0], "numbers or labels, got values of type bool, int"),
        (["a", 1.0, NAN], "text beside numbers, first 'a' in row 0"),
        ([True, "a"], "got values of type bool, str"),
        ([["a"], ["b"]], "got values of type list"),
        ([NAN, {}], "got values of type dict"),
    ],
)
def test_values__of_several_kinds_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        encode(objects(values), "x")


def arrow_columns():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    chunks = [pa.array(["u", None, "v"]), pa.array(["w", "v"])]
    yield pa.chunked_array(chunks)
    yield pa.chunked_array([chunk.cast("large_string") for chunk in chunks])
    yield pa.chunked_array([chunk.dictionary_encode() for chunk in chunks])
    yield pa.chunked_array([pa.array([], "string"), *chunks])


def test_arrow__codes_are_one_list_for_all_chunks():
    for column in arrow_columns():
        source = frame_source(as_frame(column), "x")
        np.testing.assert_array_equal(source.read(0, 5)[:, 0], [0.0, np.nan, 1.0, 2.0, 1.0])
        assert source.categories == (("u", "v", "w"),)


def test_arrow__texts_of_numbers_are_refused():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(DataError, match="numbers that are written as text, as '1,200'"):
        frame_source(as_frame(pa.chunked_array([["1,200", "1,300"]])), "x")
    labels = pa.chunked_array([[f"id {row}" for row in range(20)]])
    for column in (labels, labels.dictionary_encode()):
        with pytest.raises(DataError, match="another label in every row"):
            frame_source(as_frame(column), "x")


def test_arrow__codes_may_be_unsigned():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    codes = pa.array([0, 1, None, 1], "uint32")
    column = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(["u", "v"]))])
    read = frame_source(as_frame(column), "x").read(0, 4)[:, 0]
    np.testing.assert_array_equal(read, [0.0, 1.0, np.nan, 1.0])
