"""Values of any type become numbers or categories, or are refused in words, by public calls.

The kind of a column is seen in its default kernel, its values in an estimate.
"""

import datetime
from decimal import Decimal
from fractions import Fraction

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError

N = 60
RNG = np.random.default_rng(0)
Y = RNG.standard_normal(N)


def told(x, y=None, **options):
    """The kernel of a variable, and an estimate that its values decide."""
    y = np.arange(len(x)) ** 1.5 if y is None else y
    found = dhsic.hsic(x, y, estimator="v-hsic", rng=0, **options)
    return found.variables[0].kernel, found.estimate


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


# Text: categories, or numbers that are written as text -----------------------------------------


def decimals(count):
    return [f"{j}.5" for j in range(count)]


def words(count):
    return [
        f"{'abcdefghij'[j % 10]}{'klmnopqrst'[j // 10 % 10]}{'uvwxyz'[j // 100]}"
        for j in range(count)
    ]


def dealt(first, second):
    """Labels of two lists by turns; what is left of the longer one at the end."""
    pairs = [label for pair in zip(first, second, strict=False) for label in pair]
    shorter = min(len(first), len(second))
    return [*pairs, *first[shorter:], *second[shorter:]]


def quantities(count, units):
    """Numbers with text before them, of so many units."""
    return [f"{words(units)[j % units]} {j}.5 each" for j in range(count)]


CATEGORIES = {
    "words": words(3),
    "whole numbers alone": ["1", "2", " 3 ", "-4", "\u22125"],
    "as many whole numbers as words": ["1", "2", "a", "b"],
    "fewer numbers than words": dealt(words(101), decimals(100)),
    "numbers after a thousand labels": [*words(501), *decimals(499), *decimals(600)[499:]],
    "20 quantities": quantities(20, 1),
    "as many quantities as words": dealt(quantities(30, 1), words(30)),
    "few quantities of every unit": quantities(24, 6),
    "models": [f"model {chr(65 + j)}{chr(90 - j)} 2.{j % 3}" for j in range(26)],
    "empty text": ["", "a"],
    "text that is no number": [*["1,2,3", "1.2.3", "e5", "."], *words(4)],
}
NUMBERS = {
    "as many numbers as words": (dealt(words(30), decimals(30)), r"as '0\.5', beside 'aku'"),
    "the thousandth label": (
        [*dealt(words(500), decimals(500)), *words(501)[500:]],
        r"as '0\.5', beside",
    ),
    "fractions among whole numbers": (["1", "2", "2.5"], r"as '2\.5': make"),
    "more whole numbers than words": ([*map(str, range(51)), *words(50)], "as '0', beside 'aku'"),
    "percent and currency": (["40 %", "$3.5", "1e5"], "as '40 %': make"),
    "21 quantities": (quantities(21, 1), r"as 'aku 0\.5 each': make"),
    "more quantities than words": (dealt(quantities(31, 1), words(29)), "'aku 0.5 each': make"),
    "more than 4 quantities of every unit": (quantities(25, 6), "'aku 0.5 each': make"),
    "dates": ([f"2020-01-{j}" for j in range(10, 31)], "'2020-01-10': make"),
    "a number alone": (["1.5"], "as '1.5': make"),
}


def twice(labels):
    """Every label in several rows."""
    return labels * 2 if len(labels) > 2 else labels * 12


@pytest.mark.parametrize("name", CATEGORIES)
def test_text__of_labels_is_a_category(name):
    texts = twice(CATEGORIES[name])
    codes = np.unique(texts, return_inverse=True)[1]
    assert told(texts) == pytest.approx(told(codes, kernels=["delta", None]))


@pytest.mark.parametrize("name", NUMBERS)
def test_text__of_numbers_is_refused_with_one_of_them(name):
    texts, message = NUMBERS[name]
    with pytest.raises(
        DataError, match=f"'x1' holds numbers that are written as text, .*{message}"
    ):
        told(twice(texts))


# Labels that hardly repeat ----------------------------------------------------------------------


def alone(pairs, single):
    return [f"u{j // 2}" for j in range(2 * pairs)] + [f"v{j}" for j in range(single)]


@pytest.mark.parametrize(
    "labels",
    [
        [f"v{j}" for j in range(10)],
        alone(15, 30),
        alone(0, 0) + ["a"] * 3 + ["b"] * 9,
        pd.Categorical(alone(1, 58)),
        pd.Categorical(["a", "b"] * 30, categories=[*map(str, range(100)), "a", "b"]),
    ],
    ids=["10 rows", "half of the rows", "no pairs", "called a category", "labels without rows"],
)
def test_labels__that_repeat_are_categories(labels):
    assert told(labels)[0] == "delta"


@pytest.mark.parametrize("labels", [alone(0, 11), alone(0, N), pd.Categorical(alone(0, N))])
def test_labels__that_all_differ_are_refused_without_a_remedy_for_categories(labels):
    with pytest.raises(
        DataError, match=r"'x1' has another label in every row, .*'v0', 'v1'"
    ) as said:
        told(labels)
    assert "astype" not in str(said.value)


def test_labels__most_of_which_are_alone_are_refused_with_a_remedy():
    message = r"'x1' has a label of its own in 32 of 60 rows, .*, as 'v0', 'v1', 'v2': leave it"
    with pytest.raises(DataError, match=message + r".*--numeric.*\.astype\('category'\) of pandas"):
        told(alone(14, 32))


def test_labels__of_groups_and_small_samples_may_be_alone():
    people, y = alone(10, 40), np.arange(N) ** 0.5
    codes = np.unique(people, return_inverse=True)[1]
    found, expected = (
        dhsic.independence_test(Y, y, groups=groups, rng=0, n_resamples=99)
        for groups in (people, codes)
    )
    assert found.pvalue == expected.pvalue
    small, large = [f"u{j}" for j in range(12)], alone(30, 0)
    dhsic.two_sample_test(large, small, rng=0)
    dhsic.two_sample_test(small, large, rng=0)
    with pytest.raises(DataError, match="'x1' has another label in every row"):
        dhsic.two_sample_test(small, small[::-1], rng=0)
    with pytest.raises(DataError, match="40 of 60 rows"):  # of a variable, after that as before
        told(people)


# Numbers and objects ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "array"),
    [
        (range(N), np.arange(N)),
        ([Fraction(j, 3) for j in range(N)], np.arange(N) / 3),
        ([Decimal(j) / 4 for j in range(N)], np.arange(N) / 4),
        (objects([np.int64(1), 2.5, Decimal(4), 8] * 15), np.array([1, 2.5, 4, 8] * 15)),
        (objects([True, np.bool_(False)] * 30), np.array([True, False] * 30)),
        (objects([b"u", "v", "w"] * 20), np.array(["a", "b", "c"] * 20)),
        (objects([np.nan, "v", "w"] * 20), objects([None, "v", "w"] * 20)),
        (objects([np.nan, True, False] * 20), objects([None, True, False] * 20)),
    ],
)
def test_objects__are_what_their_array_is(values, array):
    (kernel, found), (same, expected) = (told(x, missing="drop") for x in (values, array))
    assert kernel.partition(":")[0] == same.partition(":")[0]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("columns", [1, 2])
def test_matrix__of_objects_is_of_its_columns(columns):
    labels = np.array(["u", "v", "w"])[RNG.integers(0, 3, (N, columns))]
    codes = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    asked = {"estimator": "v-hsic", "kernels": ["delta", "gaussian:1.0"]}
    found, expected = (dhsic.hsic(x, Y, **asked).estimate for x in (labels, codes))
    assert found == pytest.approx(expected)
    assert told(labels)[0].startswith("delta")


REFUSED = [
    ([True, 1, 0], "'x1' must hold numbers or labels, got values of type bool, int: convert"),
    (["a", 1.0, "b"], "'x1' holds text beside numbers, first 'a' in row 0: make all of them"),
    ([2, b"a", 1], "text beside numbers, first b'a' in row 1"),
    ([Decimal(2), None, "b"], "text beside numbers, first 'b' in row 2"),
    ([np.nan, 1.0, "a"], "text beside numbers, first 'a' in row 2"),
    ([True, "a"], "got values of type bool, str: convert"),
    ([np.bool_(True), "a"], "got values of type bool(_)?, str"),
    ([["a"], ["b"]], "got values of type list"),
    ([np.nan, {}], "got values of type dict: convert"),
    ([None, datetime.date(2020, 1, 1)], "got date: turn times into numbers, as days"),
    ([datetime.time(1), datetime.time(2)], "got time: turn times"),
    ([datetime.timedelta(1), "a"], "got timedelta: turn times"),
    ([np.datetime64("2020"), 1], "got datetime64: turn times"),
    ([np.timedelta64(1, "s"), np.timedelta64(2, "s")], "got timedelta64: turn times"),
    ([np.timedelta64(1, "s"), None], "got timedelta64: turn times"),
    ([pd.Period("2020", "Y"), None], "got Period: turn times"),
    ([None, 1j], "got complex: use its real and imaginary parts as columns"),
    ([10**400, 1.5], r"'x1' has integers beyond 2\*\*53.*: subtract an offset"),
]


@pytest.mark.parametrize(("values", "message"), REFUSED)
def test_objects__of_other_kinds_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        told(objects(values), np.arange(len(values)))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (da.from_array(np.array([1j, 2])), "got complex128: use its real and imaginary parts"),
        (np.array([1, 2], "M8[s]"), r"got datetime64\[s\]: turn times into numbers, as days"),
        (np.array([1, 2], "m8[s]"), r"got timedelta64\[s\]: turn durations into numbers, as sec"),
        (da.from_array(np.array(["a", "b"])), "read it into memory, where labels"),
        (da.from_array(objects(["a", "b"]), chunks=1), "read it into memory, where labels"),
        (np.empty((2, 0), object), "'x1' must have rows and columns, got 2 x 0"),
        (np.array([[1], [{}]], object), "^variable 'x1' must hold numbers or labels"),
        (np.array([["a", 1], ["b", {}]], object), "column 1 of variable 'x1' must hold numbers or"),
        (pd.DataFrame({"a": [1, 2], "b": pd.to_datetime(["2020", "2021"])}), "column 'b' of var"),
        (dd.from_pandas(pd.Series(["a", "b"]), npartitions=1), r"\('category'\)\.cat\.as_known"),
    ],
)
def test_types__that_are_no_numbers_are_refused_with_a_remedy(x, message):
    with pytest.raises(DataError, match=message):
        told(x, np.arange(2))


LARGE = 2**60
INEXACT = {
    "integers and None": [LARGE, LARGE + 1, None],
    "integers and NaN": [LARGE, LARGE + 1, np.nan],
    "integers and a fraction": [LARGE, LARGE + 1, 0.5],
    "rows": [[LARGE, LARGE + 1], [0.5, 1]],
    "the first that is lost": [2**53 + 1, None],
    "negative": [-(2**53) - 1, None],
    "of two types": [2**63 + 1, -1],
    "beyond 64 bits": [2**70 + 1, 1],
    "objects": objects([np.int64(LARGE), 0.5]),
    "whole objects": objects([2**53 + 1, 2**53 + 3, 4, 5]),
    "nullable": pd.Series([LARGE, None], dtype="Int64"),
    "nullable frame": pd.DataFrame({"a": pd.Series([LARGE, None], dtype="Int64")}),
    "frame of two types": pd.DataFrame({"a": [LARGE, LARGE + 1], "b": [0.5, 1.5]}),
    "nullable beside others": pd.DataFrame(
        {"a": pd.Series([LARGE, None], dtype="Int64"), "b": [1, 2]}
    ),
    "dictionary": {"a": np.array([LARGE, LARGE + 1]), "b": np.array([0.5, 1.5])},
    "signed and unsigned": {"a": np.array([LARGE]), "b": np.array([LARGE], np.uint64)},
    "Dask": dd.from_pandas(
        pd.DataFrame({"a": pd.Series([LARGE, 2], dtype="Int64")}), npartitions=1
    ),
}


@pytest.mark.parametrize("name", INEXACT)
def test_integers__that_lose_digits_as_floats_are_refused(name):
    x = INEXACT[name]
    rows = len(x["a"]) if isinstance(x, dict) else len(x)
    with pytest.raises(DataError, match=r"has integers beyond 2\*\*53.*: subtract an offset"):
        told(x, np.arange(rows), missing="drop")


def test_integers__that_a_pass_meets_are_refused_by_their_rows():
    x = zarr.create_array({}, shape=(40_000,), chunks=(2_000,), dtype="i8")
    x[:] = np.arange(40_000)
    x[12_001] = 2**53 + 1
    asked = {"estimator": dhsic.NystromMHSIC(20), "null": "gamma", "kernels": "gaussian"}
    with pytest.raises(DataError, match=r"row 12001 of variable .* has integers beyond"):
        dhsic.independence_test(x, np.arange(40_000.0), rng=0, **asked)


@pytest.mark.parametrize(
    ("x", "same"),
    [
        ([2**53, 0, None, 1, 2, 3], [2.0**53, 0, 1, 2, 3]),
        ([-(2**53), 0, None, 1, 2, 3], [-(2.0**53), 0, 1, 2, 3]),
        ([2.0**60, 0.5, None, 1, 2, 3], [2.0**60, 0.5, 1, 2, 3]),
        ([1e300, 1, None, 2, 3, 4], [1e300, 1, 2, 3, 4]),
    ],
)
def test_numbers__that_keep_their_digits_are_taken(x, same):
    y = np.array([1.0, 5.0, 2.0, 4.0, 3.0, 0.0])
    asked = {"kernels": ["linear", "gaussian:1.0"], "estimator": "v-hsic"}
    if same[0] > 1e200:
        asked["kernels"] = ["scores(gaussian)", "gaussian:1.0"]
    found = dhsic.hsic(x, y, missing="drop", **asked).estimate
    assert found == pytest.approx(dhsic.hsic(np.array(same), y[[0, 1, 3, 4, 5]], **asked).estimate)
