"""Amounts of memory are read as Dask does, where they say how many of what."""

import pytest

from dhsic.engine.units import parse_bytes
from dhsic.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (1, 1),
        (2_000_000_000, 2_000_000_000),
        ("1000", 1000),
        ("3 b", 3),
        ("2k", 2000),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("1.5 MiB", 3 * 2**19),
        ("2GB", 2 * 10**9),
        (" 2gib ", 2**31),
        ("1T", 10**12),
        ("0.5TiB", 2**39),
        ("1e9", 10**9),
    ],
)
def test_parse_bytes__reads_decimal_and_binary_units(text, amount):
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "value", [0, "0GiB", -1, "2 apples", "", "GiB", "1ib", None, True, "0.2", "1e999"]
)
def test_parse_bytes__refuses_what_is_no_positive_amount(value):
    with pytest.raises(
        InvalidArgumentError, match="positive number of bytes such as '2GiB'"
    ) as caught:
        parse_bytes(value)
    assert str(caught.value).endswith(f"got {value!r}")
