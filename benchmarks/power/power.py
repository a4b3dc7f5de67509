"""How much dependence tests find at level 5 %, and in how much processor time, on the same data.

Where there are more than 200 rows of the first kinds only sqrt(200 n), drawn at random, are
dependent, so that the power stays away from 1. `default` is a test without options; `v-hsic`,
`features` of 256 landmarks and `tuples` have its kernels and its null, `one kernel` the median
heuristic alone, and `permutation` 499 permutations of all rows. `samples` differ in one thing of
their laws; of `given` data x and y depend on each other given z; and in `rows` they depend and rows
belong together, as the argument of the test says. Columns of real tables are those of
`real_columns.py`. Error is the standard error of the power.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import dhsic
from benchmarks.level.level import (
    ARGUMENTS,
    OTHERS,
    exchangeable,
    given_data,
    rows_data,
)
from benchmarks.shared import curves, dependence, rejections
from benchmarks.shared.conditional_data import CASES as CONDITIONAL
from benchmarks.shared.dependent_data import CASES as DEPENDENT
from benchmarks.shared.real_columns import REAL
from benchmarks.shared.rejections import Method, Source
from benchmarks.study import Row

RESAMPLES = 499
PERMUTED = dhsic.Permutation(RESAMPLES, within="all")
EFFECT = 0.5
"""In rows that belong together."""
GIVEN = {0.3: (2000,), 0.4: (300, 1000, 2000), 0.5: (300, 1000, 2000)}
"""Rows by the effect in data that are independent given others."""


def sources() -> dict[str, Source]:
    """All kinds of dependent data."""
    found = {
        name: Source(group, dependence.Weakened(draw))
        for group, kinds in (("two", dependence.TWO), ("several", dependence.SEVERAL))
        for name, draw in kinds.items()
    }
    for law, (parts, words) in product(dependence.LAWS, ((2, "halves"), (4, "1 to 3"))):
        draw = partial(dependence.two_samples, law=law, parts=parts)
        found[f"samples: {law}, {words}"] = Source("samples", draw, (200, 1000))
    for case, d in product(CONDITIONAL, (1, 5)):
        for effect, sizes in GIVEN.items():
            if case != "categories" or d == 1:
                found[f"{case}, given {d}, effect {effect}"] = Source(
                    "given", given_data(case, d, effect), sizes
                )
    for case in DEPENDENT:
        found[f"rows: {case}"] = Source("rows", rows_data(case, EFFECT), (500, 1000))
    for name, columns in REAL.items():
        found[name] = Source("real", columns, (columns.rows,))
    return found


def methods() -> dict[str, Method]:
    """All tests."""

    def by(*groups: str, **options: Any) -> Method:
        return Method(groups, partial(dhsic.independence_test, **ARGUMENTS, **options))

    joint: dict[str, Any] = {"estimator": "nystrom-m"}
    default = partial(dhsic.independence_test, **ARGUMENTS)
    features = dhsic.NystromHSIC(256, n_features="auto")
    return {
        "default": Method(("two", "several", "real"), default),
        "one kernel": by("two", "several", "real", kernels="gaussian"),
        "v-hsic": Method(
            ("two",), partial(default, estimator="v-hsic", kernels=dhsic.Grid()), most_rows=4000
        ),
        "features": by("two", estimator=features, kernels=dhsic.Grid()),
        "tuples": by("two", kernels=dhsic.Grid(), **joint),
        "permutation": by("two", "several", null=PERMUTED, **joint),
        "shifts": by("several", null="shifts", **joint),
        "chain": by("several", null="chain", **joint),
        "martingale": by("two", kernels="gaussian", null="martingale"),
        "distance covariance": by("two", "real", kernels="distance"),
        "two_sample_test": Method(("samples",), partial(dhsic.two_sample_test, **ARGUMENTS)),
        "conditional_independence_test": Method(
            ("given",), partial(dhsic.conditional_independence_test, **ARGUMENTS)
        ),
        **{
            name: Method(("given",), call, {"": float}, 2000, default=False)
            for name, call in OTHERS.items()
        },
        "its argument": Method(("rows",), default),
        "as if exchangeable": Method(("rows",), exchangeable),
        "its argument, one kernel": by("rows", estimator="nystrom-hsic", kernels="gaussian"),
        "as if exchangeable, one kernel": Method(
            ("rows",), partial(exchangeable, estimator="nystrom-hsic", kernels="gaussian")
        ),
    }


def picture(table: Sequence[Row], path: Path) -> None:
    """Power of the default and others against rows and processor time, of two variables."""
    shown = [row for row in table if row["data"] in dependence.TWO and row["method"] != "shifts"]
    curves.picture(shown, path, "log")


STUDY = rejections.of_rejections(
    name="power",
    title="How much do tests find, in how much time?",
    data=sources(),
    methods=methods(),
    sizes=sorted({200, 300, 500, 1000, 2000, 4000, 10_000, *(one.rows for one in REAL.values())}),
    columns=("power", "error", "1%", "warned", "refused", "seconds"),
    runs=100,
    small={
        "data": ["linear", "xor of 3", "samples: mean, halves", "rows: AR(0.9)"],
        "methods": ["default", "features", "chain", "two_sample_test", "its argument"],
        "sizes": [200, 300, 500],
        "runs": 2,
    },
    picture=picture,
)
