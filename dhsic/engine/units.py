"""Format and read bytes, seconds and other amounts."""

from __future__ import annotations

from dhsic._validation import shown
from dhsic.errors import InvalidArgumentError


def format_bytes(amount: float) -> str:
    """Write an amount of memory for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def format_count(number: int, noun: str) -> str:
    """Write how many there are of something, for people."""
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural}"


def format_seconds(seconds: float) -> str:
    """Write a predicted time for people, with two digits: no more are known."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):,g} {unit}"
    return f"{max(float(f'{seconds:.2g}'), 0.1):,g} s"


def parse_bytes(value: int | str) -> int:
    """Read an amount of memory such as 2000000000, "2GB" or "2GiB", as Dask does."""
    from dask.utils import parse_bytes as read  # slow to import

    text = str(value).strip()
    try:
        amount = read(text) if text[:1].isdigit() else 0  # to Dask a unit alone is one of it
    except (ValueError, OverflowError):
        amount = 0
    if amount < 1:
        got = shown(value)
        msg = f"memory must be a positive number of bytes such as '2GiB' or 2000000000, got {got}"
        raise InvalidArgumentError(msg)
    return int(amount)
