"""Values and frames of any type as numbers: what a column holds decides how it is compared."""

from __future__ import annotations

import datetime
import math
import re
import shlex
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import nearest, shown
from dhsic.engine.passes import INEXACT, LARGEST_EXACT, ValueKind, check_exact
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.variables import Labels, Variable

_REMEDIES = {
    "c": "use its real and imaginary parts as columns",
    "M": "turn times into numbers, as days since the first, or into categories, as the weekday",
    "m": "turn durations into numbers, as seconds",
    "V": "choose one of its fields",
    "OUST": "read it into memory, where labels become categories, or store integer codes",
}
_TIMES = datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64
# Whole numbers alone are as often labels.
_WHOLE = re.compile(r"\s*[-+\u2212]?\d+\s*")
_MARKS = "NAType", "NaTType"  # of pandas, for a missing value
_LABELS_SEEN = 1000
_ROWS_OF_NAMES = 10  # from so many rows on, labels that all differ are no categories
# Measured with 200 and 1,000 rows. Where half of the rows or
# more have a label of their own, a test of labels finds 3 to 15 % of the dependences that numbers
# show in 80 to 100 %. Where fewer have, groups whose means vary as their rows do are found in 95 %
# and more, which are taken; those of the others, found in 60 to 100 %, must be called categories.
_ALONE = 0.5
# Labels with a number beside other text: a unit, a currency or "<", a date or a time. Numbers of 20
# values are found in 78 and 90 %, their labels in 40 and 37 %; with more values labels lose more.
_QUANTITY = re.compile(r"\d\W\d")
_QUANTITIES = 20

_WIDE = ("Int128", "UInt128")  # which NumPy has not

_rare: ContextVar[list[DataError] | None] = ContextVar("_rare", default=None)


class Encoded(NamedTuple):
    """A column, or columns of one kind, as numbers; NaN where a value is missing."""

    values: NDArray[Any]
    kind: ValueKind
    categories: Labels = None
    """Labels of the codes of a category, in their order."""


EncodedColumns = tuple[NDArray[Any], tuple[ValueKind, ...], tuple[Labels, ...]]
"""Columns of any kinds as numbers, shape (n,) or (n, d), their kinds, and labels of codes."""


def check_type(data_name: str, dtype: Any) -> None:
    """Refuse a type that no kernel takes as it is.

    Raises
    ------
    DataError
        Its values are no real numbers.
    """
    kind = np.dtype(dtype).kind
    if kind not in "fiub":
        if kind == "V" and np.dtype(dtype).names is None:
            kind = "number of another library"  # as bfloat16
        remedies = (text for kinds, text in _REMEDIES.items() if kind in kinds)
        remedy = next(remedies, "convert it to float32")
        msg = f"{data_name} must hold real numbers, got {dtype}: {remedy}"
        raise DataError(msg)


@contextmanager
def rare_labels_taken(fewer_than: float = math.inf) -> Iterator[None]:
    """Take text most rows of which have a label of their own, in fewer columns than so many."""
    errors: list[DataError] = []
    before = _rare.set(errors)
    try:
        yield
    finally:
        _rare.reset(before)
    if len(errors) >= fewer_than:
        raise errors[0]


def encode(values: NDArray[Any], data_name: str) -> Encoded:
    """Numbers and booleans as they are, text as codes of categories, a column at a time.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Values of any type.
    data_name : str
        Name in messages.

    Returns
    -------
    Encoded

    Raises
    ------
    DataError
        Times, complex numbers, text beside numbers, numbers that are written as text, or labels
        that all differ.
    """
    if values.dtype.kind in "OUST":
        return _of_objects(values.tolist(), data_name)
    check_type(data_name, values.dtype)
    return Encoded(values, "boolean" if values.dtype.kind == "b" else "number")


def encode_codes(
    codes: NDArray[Any], labels: Sequence[Any], data_name: str, most_alone: float = 1.0
) -> Encoded:
    """Codes of labels as they are, of which -1 is missing.

    Raises
    ------
    DataError
        See `check_repeated`.
    """
    gaps = codes < 0
    check_repeated(np.bincount(codes[~gaps]), labels, data_name, most_alone)
    return Encoded(np.where(gaps, np.nan, codes) if gaps.any() else codes, "category", (*labels,))


def encode_text(codes: NDArray[Any], texts: Sequence[Any], data_name: str) -> Encoded:
    """The same of texts that nobody called categories.

    Raises
    ------
    DataError
        Most texts are numbers, or most rows have one of their own.
    """
    numbers, others = written_numbers(texts)
    if numbers:
        beside = f", beside {others[0]!r}" if others else ""
        # A comma may be a decimal one, without which 0,126 would be 126.
        signs = " or ".join(one.told() for one in notations_of(numbers))
        how = f"pandas.read_csv or 'dhsic convert table' with {signs}, or " if signs else ""
        msg = (
            f"{data_name} holds numbers that are written as text, as {numbers[0]!r}{beside}: make "
            f"numbers of them, as by {how}pandas.to_numeric after .str.replace (units by nothing, "
            "a decimal comma by a point), or a categorical column of labels"
        )
        raise DataError(msg)
    return encode_codes(codes, texts, data_name, _ALONE)


def encode_matrix(values: NDArray[Any], data_name: str) -> EncodedColumns:
    """The same of an array (n,) or (n, d), which is not copied where it holds numbers."""
    d = 1 if values.ndim == 1 else values.shape[1]
    if values.dtype.kind in "fiub":
        kind: ValueKind = "boolean" if values.dtype.kind == "b" else "number"
        return values, (kind,) * d, (None,) * d
    if values.ndim == 1:
        values = values[:, None]
    if not d:
        msg = f"{data_name} must have rows and columns, got {len(values)} x 0"
        raise DataError(msg)
    words = [data_name] if d == 1 else [f"column {j} of {data_name}" for j in range(d)]
    return side_by_side([encode(values[:, j], told) for j, told in enumerate(words)], data_name)


def side_by_side(columns: Sequence[Encoded], data_name: str) -> EncodedColumns:
    """Columns of any kinds as one array (n, d)."""
    values, kinds, categories = zip(*columns, strict=True)
    return joined(values, data_name), kinds, categories


def joined(columns: Sequence[NDArray[Any]], data_name: str) -> NDArray[Any]:
    """Columns (n,) or (n, d) as one array (n, d), which is of floats where one of them is.

    Raises
    ------
    DataError
        Integers would lose digits as floats.
    """
    values = np.column_stack(columns)
    if values.dtype.kind == "f":
        check_exact(data_name, *columns)
    return values


def check_whole(values: Any, numbers: NDArray[Any], data_name: str) -> None:
    """Refuse Python's integers, among other values, that lost digits when they became floats.

    Raises
    ------
    DataError
        Integers are beyond 2**53.
    """
    if numbers.dtype.kind != "f":
        return
    # Few, if any: so that not every value is looked at by Python. The largest is one, which the
    # next integer has become.
    large = np.abs(numbers) >= LARGEST_EXACT
    if large.any():
        objects = np.empty(numbers.shape, object)
        objects[...] = values
        if any(isinstance(v, Integral) and abs(int(v)) > LARGEST_EXACT for v in objects[large]):
            msg = f"{data_name} has {INEXACT}"
            raise DataError(msg)


def _of_objects(values: list[Any], data_name: str) -> Encoded:
    """Python values of one type, some of which may be missing.

    All are looked at by functions of C, since there may be a hundred million: their types first.
    """
    kinds = {kind: _kind_of_labels(kind) for kind in set(map(type, values))}
    present = set(kinds.values()) - {None}
    if present <= {"number"}:
        return Encoded(_encoded_numbers(values, None in kinds.values(), data_name), "number")
    floats = {kind for kind, said in kinds.items() if said == "number"}
    # Floats that are all NaN stand for missing labels.
    if floats and all(_is_missing(value) for value in values if type(value) in floats):
        present.remove("number")
    if present == {"boolean"}:
        return Encoded(_booleans(values), "boolean")
    if present == {"text"}:
        return encode_text(*codes_of_labels(values), data_name)
    raise _refusal(values, data_name)


def _kind_of_labels(kind: type) -> str | None:
    """Labels of the values of a type; None of those that say that one is missing."""
    if kind is type(None) or kind.__name__ in _MARKS:
        return None
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, np.timedelta64):  # a whole number to Python
        return "other"
    if issubclass(kind, Real | Decimal):
        return "number"
    return "text" if issubclass(kind, str | bytes) else "other"


def codes_of_labels(values: Sequence[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Codes of labels as they first appear, -1 where one is missing, and what they stand for."""
    labels = [value for value in dict.fromkeys(values) if not _is_missing(value)]
    # What is missing, NaN among it, keeps the code -1.
    codes = dict.fromkeys(values, -1)
    codes.update(zip(labels, range(len(labels)), strict=True))
    return np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), labels


def _encoded_numbers(values: list[Any], some_missing: bool, data_name: str) -> NDArray[Any]:
    """Numbers, whole where all are, and NaN where one is missing."""
    if some_missing:
        values = [np.nan if _is_missing(value) else value for value in values]
    plain = np.array(values)
    try:
        numbers = plain if plain.dtype.kind in "fiub" else plain.astype(np.float64)
    except OverflowError:  # Python's whole numbers have no end
        remedy = "divide by a power of ten, or take logarithms, before"
        msg = f"{data_name} must hold numbers between -1.8e308 and 1.8e308: {remedy}"
        raise DataError(msg) from None
    check_whole(values, numbers, data_name)
    return numbers


def _booleans(values: list[Any]) -> NDArray[Any]:
    """Booleans, or 1 and 0 with NaN where one is missing."""
    numbers = {
        value: np.nan if _is_missing(value) else float(value) for value in dict.fromkeys(values)
    }
    encoded = np.fromiter(map(numbers.__getitem__, values), np.float64, len(values))
    return encoded if np.isnan(encoded).any() else encoded.astype(np.bool_)


def check_repeated(
    counts: Any, labels: Sequence[Any], data_name: str, most_alone: float = _ALONE
) -> None:
    """Refuse labels that a kernel of equal labels sees next to nothing of.

    Parameters
    ----------
    counts : sequence of int
        Rows of every label.
    labels : sequence
        The labels.
    data_name : str
        Name in messages.
    most_alone : float, optional
        The largest share of rows with a label of their own; 1 of what was called a category, in
        which two rows are to be alike.

    Raises
    ------
    DataError
        More rows have a label of their own, as numbers with units, dates and names have.
    """
    rows, single = int(np.sum(counts)), np.flatnonzero(np.asarray(counts) == 1)
    if rows <= _ROWS_OF_NAMES or (len(single) < rows and len(single) <= most_alone * rows):
        return
    where = f"a label of its own in {len(single):,} of {rows:,} rows"
    where = "another label in every row" if len(single) == rows else where
    some = ", ".join(repr(labels[at]) for at in single[:3])
    msg = (
        f"{data_name} has {where}, so it names rows or quantities, as {some}: leave it out, or "
        "make numbers of it, as by pandas.to_numeric without units or 'dhsic convert table' "
        "--numeric"
    )
    if most_alone < 1.0 and len(single) < rows:
        msg += "; or tell that it is a category, by .astype('category') of pandas or --categorical"
    if (errors := _rare.get()) is None:
        raise DataError(msg)
    errors.append(DataError(msg))


def written_numbers(labels: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Numbers among labels most of which are numbers, which have distances, and other labels.

    None of labels that are labels.
    """
    # The first labels tell enough: columns of text may have millions.
    seen = labels[:_LABELS_SEEN]
    numbers = [label for label in seen if isinstance(label, str) and is_number(label)]
    others = [label for label in seen if label not in numbers]
    written = [label for label in numbers if not _WHOLE.fullmatch(label)]
    share = len(numbers) / max(len(seen), 1)
    if share >= 0.5 if written else share > 0.5 and others:
        return written or numbers, others
    quantities = [str(label) for label in seen if _QUANTITY.search(str(label))]
    units = {re.sub(r"[\d\W]", "", label) for label in quantities}
    few = len(quantities) <= max(_QUANTITIES, len(seen) / 2, 4 * len(units))
    return [] if few else quantities, []


def _refusal(values: list[Any], data_name: str) -> DataError:
    """Error of values that are neither numbers nor labels."""
    there = [(row, value) for row, value in enumerate(values) if not _is_missing(value)]
    for _, value in there:
        is_time = isinstance(value, _TIMES) or type(value).__name__ == "Period"
        if is_time or isinstance(value, complex):
            got = f"{type(value).__name__}: {_REMEDIES['M' if is_time else 'c']}"
            return DataError(f"{data_name} must hold real numbers, got {got}")
    texts = [(row, value) for row, value in there if isinstance(value, str | bytes)]
    if texts and any(_kind_of_labels(type(value)) == "number" for _, value in there):
        return DataError(
            f"{data_name} holds text beside numbers, first {texts[0][1]!r} in row {texts[0][0]}: "
            "make all of them numbers, as by pandas.to_numeric, or all text, for categories"
        )
    kinds = ", ".join(sorted({type(value).__name__ for _, value in there}))
    what = f"must hold numbers or labels, got values of type {kinds}"
    return DataError(f"{data_name} {what}: convert it")


def _is_missing(value: Any) -> bool:
    """None, NaN, and the marks of pandas for values and times."""
    if value is None or type(value).__name__ in _MARKS:
        return True
    # NaN alone differs from itself.
    return isinstance(value, float | Decimal | np.floating) and value != value


# --- data frames of every library, a column at a time, by narwhals


def as_frame(x: Any) -> Any:
    """A data frame or series of narwhals, or None where x is no such thing.

    Raises
    ------
    DataError
        It is not computed yet, or two of its columns have the same name.
    """
    if isinstance(x, np.ndarray | str | bytes | list | tuple | dict | range):
        return None
    import narwhals as nw  # a tenth of a second, and arrays do without

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(x, arrow.RecordBatch):
        x = arrow.Table.from_batches([x])
    elif arrow is not None and isinstance(x, arrow.Array):
        x = arrow.chunked_array([x])
    if arrow is not None and isinstance(x, arrow.Table):
        x = x.drop_columns(index_of_pandas(x.schema, named=False))
        for at in map(x.schema.get_field_index, categories_of_pandas(x.schema)):
            x = x.set_column(at, x.schema.names[at], x.column(at).dictionary_encode())
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(x, pandas.DataFrame):
        # Names may be numbers or tuples, which narwhals does not select by.
        x = x.set_axis(names_of_columns(x.columns), axis=1)
    try:
        frame = nw.from_native(x, pass_through=True, allow_series=True)
    except nw.exceptions.DuplicateError as error:
        msg = f"columns of a data frame must have different names ({error}): rename them"
        raise DataError(msg.replace("\n", " ")) from error
    if isinstance(frame, nw.LazyFrame):
        msg = f"a {type(x).__name__} is not computed yet: call .collect() on it first"
        raise DataError(msg)
    return frame if isinstance(frame, nw.DataFrame | nw.Series) else None


def names_of_columns(keys: Iterable[Any]) -> list[str]:
    """Name columns by text: of 1 and "1", which are alike as such, by what Python writes."""
    listed = list(keys)
    names = [str(key) for key in listed]
    return names if len(set(names)) == len(names) else [repr(key) for key in listed]


def categories_of_pandas(schema: Any) -> list[str]:
    """Columns of Arrow that were categories to pandas; Parquet keeps those of text alone."""
    told = (schema.pandas_metadata or {}).get("columns", ())
    names = [one.get("field_name") for one in told if one.get("pandas_type") == "categorical"]
    return [name for name in names if schema.names.count(name) == 1]


def index_of_pandas(schema: Any, *, named: bool = True) -> list[str]:
    """Columns of Arrow that hold the labels of rows of pandas; those with a name of their own too.

    Labels that pandas only counts may be of the rows of another table, and are not among them.
    """
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    names = [name for name in told if isinstance(name, str) and schema.names.count(name) == 1]
    if named:  # some levels of several, as a choice of columns leaves them, are no labels of rows
        return names if len(names) == len(told) else []
    return [name for name in names if name.startswith("__index_level_")]


def frame_source(frame: Any, name: str) -> Variable:
    """A data frame or series of narwhals as a variable.

    Columns of one numeric type are not copied where their library has them as one array.

    Raises
    ------
    DataError
        A column holds neither numbers nor labels, or there is none.
    """
    data_name = f"variable {name!r}"
    if not hasattr(frame, "columns"):
        values, kind, categories = _encoded_column(frame, data_name)
        own = None if frame.name in (None, "") else (str(frame.name),)
        return Variable(name, values, kinds=(kind,), labels=own, categories=(categories,))
    labels = tuple(map(str, frame.columns))
    if not labels:
        msg = f"{data_name} must have rows and columns, got {len(frame)} x 0"
        raise DataError(msg)
    types = list(frame.schema.values())
    if len(set(map(str, types))) == 1 and types[0].is_numeric() and str(types[0]) not in _WIDE:
        values = frame.to_numpy()
        if values.dtype.kind in "fiu":
            for column in frame.iter_columns():
                _check_digits(column, values, data_name)
            return Variable(name, values, labels=labels)
    words = [f"column {label!r} of {data_name}" for label in labels]
    words = [data_name] if len(labels) == 1 else words
    columns = [*map(_encoded_column, frame.iter_columns(), words)]
    values, kinds, categories = side_by_side(columns, data_name)
    return Variable(name, values, kinds=kinds, labels=labels, categories=categories)


def list_of_columns(variable: Any, known: Container[str] = ()) -> list[Any]:
    """The names of several columns that make one variable: text, or what known columns have.

    Raises
    ------
    InvalidArgumentError
        It is no list of names.
    """
    listed = isinstance(variable, Sequence) and len(variable)
    if not listed or not all(isinstance(x, str | int | tuple) or str(x) in known for x in variable):
        msg = (
            "with data=, a variable must be the name of a column or a list of names, got "
            f"{shown(variable)}: leave out data= to pass arrays"
        )
        raise InvalidArgumentError(msg)
    return list(variable)


def unknown_column(name: Any, known: Sequence[str]) -> InvalidArgumentError:
    """The error of a name that the data do not have."""
    return InvalidArgumentError(
        f"the data have no column {name!r}; there are: {', '.join(known) or 'none'}"
        f"{nearest(str(name), known)}"
    )


def _encoded_column(column: Any, data_name: str) -> Encoded:
    import narwhals as nw

    native = column.to_native()
    if (coded := _arrow_codes(native)) is not None:
        encoded = encode_text if column.dtype == nw.String else encode_codes
        return encoded(*coded, data_name)
    if column.dtype in (nw.Categorical, nw.Enum):
        codes = getattr(getattr(native, "cat", None), "codes", None)  # of pandas, ready made
        if codes is None:
            return encode_codes(*codes_of_labels(column.to_list()), data_name)
        return encode_codes(codes.to_numpy(), native.cat.categories, data_name)
    # Lists and structures of several values, and types that Arrow stores as another.
    held = getattr(native, "type", column.dtype)
    unknown = str(held) in _WIDE or hasattr(held, "extension_name")
    if unknown or (values := column.to_numpy()).ndim > 1:
        msg = (
            f"{data_name} must have one number or label a row, got {held}: make a column of each "
            "part, or numbers of 64 bits or text of it"
        )
        raise DataError(msg)
    _check_digits(column, values, data_name)
    return encode(values, data_name)


def _check_digits(column: Any, values: NDArray[Any], data_name: str) -> None:
    """Refuse integers that became floats, since some are missing, and lost digits so."""
    if values.dtype.kind == "f" and column.dtype.is_integer():
        check_exact(data_name, column.drop_nulls().to_numpy())


def _arrow_codes(column: Any) -> tuple[NDArray[Any], list[Any]] | None:
    """Codes of the labels of an Arrow column, -1 where one is missing, and the labels."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or not isinstance(column, arrow.ChunkedArray):
        return None
    types = arrow.types
    if types.is_string(column.type) or types.is_large_string(column.type):
        column = column.dictionary_encode()
    if not types.is_dictionary(column.type):
        return None
    # Every chunk of a column may have a dictionary of its own.
    coded = column.unify_dictionaries().combine_chunks()
    codes = coded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, coded.dictionary.to_pylist()


# --- numbers as people write them

# Signs that look alike and that one key stands for, as spaces that do not break.
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_MINUS = "\u2212"


class Notation(NamedTuple):
    """The signs by which numbers are written: between thousands, if there is one, and decimal."""

    thousands: str | None = None
    decimal: str = "."

    @property
    def signs(self) -> dict[str, str]:
        """Those that are not the usual ones, by the names of their options."""
        return {k: v for k, v in self._asdict().items() if v != USUAL._asdict()[k]}

    @property
    def pattern(self) -> str:
        """A regular expression of numbers, for Python and for Arrow."""
        point = re.escape(self.decimal)
        numbers = rf"(\d+{point}?\d*|{point}\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity)"
        if self.thousands is not None:
            # No group of thousands begins with 0: "0,126" has a decimal comma.
            numbers += rf"|[1-9]\d{{0,2}}({self._between}\d{{3}})+({point}\d*)?"
        return f"^[-+{_MINUS}]?({numbers})$"

    @property
    def _between(self) -> str:
        sign = self.thousands or ""
        return f"[{re.escape(_ALIKE.get(sign, sign))}]"

    def plain(self, texts: Any) -> Any:
        """Numbers among Arrow's strings as programs write them."""
        import pyarrow.compute as pc

        texts = pc.replace_substring(pc.utf8_trim_whitespace(texts), _MINUS, "-")
        if self.thousands is not None:
            texts = pc.replace_substring_regex(texts, self._between, "")
        return pc.replace_substring(texts, self.decimal, ".")

    def told(self, column: str | None = None) -> str:
        """Options of a command that say so, of a column of text, and arguments of a function."""
        given = ({} if column is None else {"numeric": column}) | self.signs
        # Signs in quotes, since a comma would seem to be one of the sentence.
        words = " ".join(
            f"--{k} {shlex.quote(v) if k == 'numeric' else repr(v)}" for k, v in given.items()
        )
        arguments = (f"{k}={[v] if k == 'numeric' else v!r}" for k, v in given.items())
        return f"{words} ({', '.join(arguments)})"


USUAL = Notation()
# Those of fewer options first.
_NOTATIONS = [USUAL, Notation(","), Notation(None, ","), Notation(" "), Notation("'")]
_NOTATIONS += [Notation(thousands, ",") for thousands in ". '"]
_PATTERNS = [re.compile(one.pattern, re.ASCII) for one in _NOTATIONS]


def is_number(text: str) -> bool:
    """Whether a text is a number in some notation, also of a currency or of percent."""
    bare = re.sub(r"\s?[%€$£]\s?", "", text).strip()
    return any(one.match(bare) and any(map(str.isdigit, bare)) for one in _PATTERNS)


def notations_of(texts: Sequence[str]) -> list[Notation]:
    """The notations that read most of some texts by fewest options; none where the usual one does.

    Examples
    --------
    >>> notations_of(["1,234", "0,5"])
    [Notation(thousands=None, decimal=',')]
    >>> len(notations_of(["1,234", "2,500"]))  # thousands, or fractions
    2
    """
    read = [sum(one.match(text.strip()) is not None for text in texts) for one in _PATTERNS]
    best = [one for one, count in zip(_NOTATIONS, read, strict=True) if count == max(read) > 0]
    return [one for one in best if 0 < len(one.signs) == len(best[0].signs)]
