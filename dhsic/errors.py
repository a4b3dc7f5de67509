"""The errors and warnings that dhsic raises, and text as their messages may show it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "ApproximateNullWarning",
    "ClusterError",
    "DataError",
    "DependentRowsWarning",
    "DhsicError",
    "InsecureWarning",
    "InvalidArgumentError",
    "LandmarkWarning",
    "MemoryBudgetError",
    "MissingDependencyError",
    "PrecisionWarning",
    "UnexplainedWarning",
    "UnknownArgumentError",
    "require",
]

_LONGEST = 600

# Characters that steer a terminal, start a line, turn the direction of text, or are no text.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class DhsicError(Exception):
    """Base class of the errors of dhsic."""

    def __str__(self) -> str:
        # Messages name columns and paths, which may hold sequences that steer a terminal.
        return brief_message(printable(super().__str__(), keep="\n\t"))


# Also the built-in error of its kind, so that code that knows nothing of dhsic can catch it.
class InvalidArgumentError(DhsicError, ValueError):
    """An option has a value that the call cannot use."""


class UnknownArgumentError(InvalidArgumentError, TypeError):
    """A function has no argument of that name."""


class DataError(DhsicError, ValueError):
    """The data cannot be tested as they are: missing values, lengths, constants, broken chunks."""


class ClusterError(DhsicError, RuntimeError):
    """A cluster, or a program that reaches it, refuses or does not answer."""


class MemoryBudgetError(DhsicError, ValueError):
    """The plan needs more memory than allowed."""


class MissingDependencyError(DhsicError, ImportError):
    """An optional dependency is needed and not installed."""


class PrecisionWarning(UserWarning):
    """The chosen floating-point precision loses digits that may matter."""


class LandmarkWarning(UserWarning):
    """The landmarks may miss a dependence."""


class ApproximateNullWarning(UserWarning):
    """An approximate null distribution may be far from the true one for these data.

    Two dummies with few ones are an example, if both are 1 in hardly any row. The message has the
    measured numbers, and names an exact null distribution.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).random((2, 1000)) < 0.02
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", dhsic.ApproximateNullWarning)
    ...     result = dhsic.independence_test(1.0 * x, 1.0 * y, null="gamma", rng=0)
    >>> str(caught[0].message)[:41]
    "null 'gamma' is an approximation: about 0"
    """


class DependentRowsWarning(UserWarning):
    """Rows that are stored side by side are alike in two variables, as in series or groups.

    P-values for exchangeable rows are then too small. The message has the measured numbers, and
    names the arguments for such rows. The check examines each column separately, to detect rare
    events, and compares rows with near values of a column by which a file is sorted, to detect
    series beside a row number. It does not warn if only one variable is a series, since the rows of
    the other variable are then exchangeable.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.repeat(np.random.default_rng(0).standard_normal((2, 100)), 10, axis=1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", dhsic.errors.DependentRowsWarning)
    ...     result = dhsic.independence_test(x, y, rng=0)
    >>> str(caught[0].message)[:51]
    "rows that are stored side by side are alike in 'x1'"
    """


class UnexplainedWarning(UserWarning):
    """The given variables explain more of two variables than the regressions of a test found.

    The parts of both variables that the regressions miss then appear as dependence, and p-values
    are too small. The message has the measured numbers.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> z, (e, f) = rng.standard_normal((300, 3)), rng.standard_normal((2, 300))
    >>> both = 2 * z.prod(axis=1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", dhsic.errors.UnexplainedWarning)
    ...     result = dhsic.conditional_independence_test(both + e, both + f, given=z, rng=0)
    >>> str(caught[0].message)[18:48]
    'the regressions miss a part of'
    """


class InsecureWarning(UserWarning):
    """Data and code travel over a network without encryption, because the call allows it."""


@contextmanager
def needing(module: str, extra: str, purpose: str) -> Iterator[None]:
    """Import an optional dependency in the block, or raise the error of `require`.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise require(module, extra, purpose) from error


def require(module: str, extra: str, purpose: str) -> MissingDependencyError:
    """Build the error for a missing optional dependency.

    Parameters
    ----------
    module : str
        The module that could not be imported.
    extra : str
        The extra of this package that installs it.
    purpose : str
        Purpose of the library, as the start of a sentence.

    Returns
    -------
    MissingDependencyError
        To be raised from the original ``ImportError``.
    """
    return MissingDependencyError(
        f"{purpose} needs {module}, which is not installed: pip install 'dhsic[{extra}]'"
    )


def printable(text: str, keep: str = "") -> str:
    r"""A text in which control characters are spelt out, as escape sequences of a terminal are.

    Examples
    --------
    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    >>> printable("größe\n", keep="\n")
    'größe\n'
    """
    if _STEERING.search(text) is None:
        return text
    return _STEERING.sub(
        lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text
    )


def brief_message(text: str) -> str:
    """A message of 600 characters at most: a long list of names gives way, and a remedy stays.

    Examples
    --------
    >>> len(brief_message("there are: " + "name, " * 300 + "did you mean 'x'?"))
    600
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 205]} ... {text[-200:]}"
