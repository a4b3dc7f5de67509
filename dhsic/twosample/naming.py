"""Estimators by the names that they have in a test of samples, in messages too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dhsic._spec import name_methods
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from dhsic.estimators import (
    ESTIMATORS,
    RFFHSIC,
    UHSIC,
    VHSIC,
    BlockHSIC,
    Estimator,
    NystromHSIC,
    NystromMHSIC,
)

MMD_ESTIMATORS: dict[str, type[Estimator]] = {
    "nystrom-mmd": NystromMHSIC,
    "rff-mmd": RFFHSIC,
    "block-mmd": BlockHSIC,
    "v-mmd": VHSIC,
    "u-mmd": UHSIC,
}
name_methods("estimator", MMD_ESTIMATORS)

# NystromHSIC is what "auto" may choose, and bears the name of landmarks here too.
MMD_NAMES = {cls: name for name, cls in MMD_ESTIMATORS.items()} | {NystromHSIC: "nystrom-mmd"}


@contextmanager
def named_as_mmd() -> Iterator[None]:
    """Have errors name estimators as a test of samples does.

    Examples
    --------
    >>> with named_as_mmd():
    ...     raise InvalidArgumentError("'coco' cannot: take one of cka, nystrom-m, v-hsic")
    Traceback (most recent call last):
    dhsic.errors.InvalidArgumentError: 'coco' cannot: take one of nystrom-mmd, v-mmd
    """
    try:
        yield
    except (InvalidArgumentError, MemoryBudgetError) as error:
        # The tests are those of independence, and so are their messages.
        error.args = (_renamed(str(error)),)
        raise


def _renamed(message: str) -> str:
    """Names of estimators in a message; lists lose those that are not for samples."""
    one = "|".join(map(re.escape, sorted(ESTIMATORS, key=len, reverse=True)))
    listed = rf"(?<![\w-])(?:{one})(?:(?:, | or )(?:{one}))*(?![\w-])"

    def renamed(match: re.Match[str]) -> str:
        classes = (ESTIMATORS[name] for name in re.split(", | or ", match[0]))
        names = dict.fromkeys(MMD_NAMES[cls] for cls in classes if cls in MMD_NAMES)
        # One alone may be quoted, and has no name here.
        return ", ".join(names) or match[0]

    return re.sub(rf"; it is for (?:{one})$", "", re.sub(listed, renamed, message))
