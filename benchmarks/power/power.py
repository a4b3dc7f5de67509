"""How much dependence tests find at level 5 %, and in how much processor time, on the same data.

Where there are more than 200 rows of the first kinds only sqrt(200 n), drawn at random, are
dependent, so that the power stays away from 1. `default` is a test without options; `v-hsic`,
`features` of 256 landmarks and `tuples` have its kernels and its null, `one kernel` the median
heuristic alone, and `permutation` 499 permutations of all rows. Kinds that begin with "nfsic" are
the problems of Jitkrittum et al. (2017), with the Gaussian kernel for all tests; `samples` differ
in one thing of their laws; of `given` data x and y depend on each other given z; and in `rows` they
depend and rows belong together, as the argument of the test says. Columns of real tables are those
of `real_columns.py`; `labels` are numbers that are written as text, and groups. Error is the
standard error of the power.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import dhsic
from benchmarks.level.level import (
    ARGUMENTS,
    OTHERS,
    SAMPLE_TESTS,
    exchangeable,
    given_data,
    rows_data,
)
from benchmarks.shared import curves, dependence, rejections
from benchmarks.shared.cases import Rng
from benchmarks.shared.conditional_data import CASES as CONDITIONAL
from benchmarks.shared.dependent_data import CASES as DEPENDENT
from benchmarks.shared.real_columns import REAL
from benchmarks.shared.rejections import Method, Source
from benchmarks.study import Row, Study

RESAMPLES = 499
PERMUTED = dhsic.Permutation(RESAMPLES, within="all")
FEW = dhsic.Permutation(199, within="all")
LABELS = tuple(
    (kind, share)
    for kind in ("numbers, 14", "numbers, 30", "even groups", "uneven groups")
    for share in (3.0, 1.5, 0.8, 0.4, 0.1, 0.02)
)
EFFECT = 0.5
"""In rows that belong together."""
GIVEN = {0.3: (2000,), 0.4: (300, 1000, 2000), 0.5: (300, 1000, 2000)}
"""Rows by the effect in data that are independent given others."""


def labelled(n: int, rng: Rng, kind: str, share: float) -> list[Any]:
    """Values x, so many over the rows as the share, and y that follows them.

    Numbers: y = a u + noise, with u uniform of some values and a^2 n as given. Groups: y = effect
    of the group + noise, with groups of equal probability or of probability 1 / rank.
    """
    values = max(2, round(share * n))
    weights = 1.0 / np.arange(1, values + 1) if kind == "uneven groups" else np.ones(values)
    x = rng.choice(values, n, p=weights / weights.sum())
    if kind.endswith("groups"):
        effect = rng.standard_normal(values)[x]
    else:
        effect = np.sqrt(12.0 * float(kind.split(", ")[1]) / n) * (x / values - 0.5)
    return [x, effect + rng.standard_normal(n)]


def sources() -> dict[str, Source]:
    """All kinds of dependent data."""
    found = {
        name: Source(group, dependence.Weakened(draw))
        for group, kinds in (("two", dependence.TWO), ("several", dependence.SEVERAL))
        for name, draw in kinds.items()
    }
    for name, draw in dependence.LINEAR_TIME.items():
        found[name] = Source("nfsic", draw, (1000, 4000))
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
        found[f"rows: {case}"] = Source("rows", rows_data(case, EFFECT), (500,))
    for name, columns in REAL.items():
        found[name] = Source("real", columns, (columns.rows,))
    for kind, share in LABELS:
        draw = partial(labelled, kind=kind, share=share)
        found[f"labels: {kind}, {share:g} values a row"] = Source("labels", draw, (200, 1000))
    return found


def as_labels(x: Any, y: Any, *, rng: int) -> Any:
    """The test of the values as text that means nothing."""
    import pandas as pd

    text = pd.Series(x).astype(str).astype("category")
    return dhsic.independence_test(pd.DataFrame({"x": text}), y, rng=rng, **ARGUMENTS)


def as_numbers(x: Any, y: Any, *, rng: int) -> Any:
    return dhsic.independence_test(x.astype(np.float64), y, rng=rng, **ARGUMENTS)


def methods() -> dict[str, Method]:
    """All tests."""

    def by(*groups: str, **options: Any) -> Method:
        return Method(groups, partial(dhsic.independence_test, **ARGUMENTS, **options))

    joint: dict[str, Any] = {"estimator": "nystrom-m"}
    default = partial(dhsic.independence_test, **ARGUMENTS)
    own = {"kernels": "gaussian", "null": FEW}
    features = dhsic.NystromHSIC(256, n_features="auto")
    rejected = {"": float}
    return {
        "default": Method(("two", "several", "nfsic", "real"), default, default=True),
        "one kernel": by("two", "several", "real", kernels="gaussian"),
        "v-hsic": Method(
            ("two",),
            partial(default, estimator="v-hsic", kernels=dhsic.Grid()),
            most_rows=4000,
        ),
        "features": by("two", estimator=features, kernels=dhsic.Grid()),
        "tuples": by("two", kernels=dhsic.Grid(), **joint),
        "permutation": by("two", "several", null=PERMUTED, **joint),
        "shifts": by("several", null="shifts", **joint),
        "chain": by("several", null="chain", **joint),
        "distance covariance": by("two", "real", kernels="distance"),
        "nfsic optimised, chi-square": by("nfsic", estimator="nfsic", null="chi-square"),
        "nfsic optimised, permutation": by("nfsic", estimator="nfsic", null=FEW),
        "nfsic random, chi-square": by(
            "nfsic", estimator=dhsic.NFSIC(placement="random"), null="chi-square"
        ),
        "nfsic random, permutation": by(
            "nfsic", estimator=dhsic.NFSIC(placement="random"), null=FEW
        ),
        "nystrom-m, permutation": by("nfsic", **joint, **own),
        "nystrom-hsic, permutation": by("nfsic", estimator="nystrom-hsic", **own),
        "rff-hsic, permutation": by("nfsic", estimator="rff-hsic", **own),
        "block-hsic, normal": by("nfsic", estimator="block-hsic", null="normal"),
        "two_sample_test": Method(
            ("samples",), partial(dhsic.two_sample_test, **ARGUMENTS), default=True
        ),
        **SAMPLE_TESTS,
        "conditional_independence_test": Method(
            ("given",), partial(dhsic.conditional_independence_test, **ARGUMENTS), default=True
        ),
        **{name: Method(("given",), call, rejected, 2000) for name, call in OTHERS.items()},
        "its argument": Method(("rows",), default, default=True),
        "as if exchangeable": Method(("rows",), exchangeable, default=True),
        "its argument, one kernel": by("rows", estimator="nystrom-hsic", kernels="gaussian"),
        "as if exchangeable, one kernel": Method(
            ("rows",), partial(exchangeable, estimator="nystrom-hsic", kernels="gaussian")
        ),
        "labels": Method(("labels",), as_labels, default=True),
        "numbers": Method(("labels",), as_numbers, default=True),
    }


def picture(table: Sequence[Row], path: Path) -> None:
    """Power of the default and others against rows and processor time, of two variables."""
    shown = [row for row in table if row["data"] in dependence.TWO and row["method"] != "shifts"]
    curves.picture(shown, path, "log")


STUDY = Study(
    name="power",
    title="How much do tests find, in how much time?",
    data=sources(),
    methods=methods(),
    sizes=sorted({200, 300, 500, 1000, 2000, 4000, 10_000, *(one.rows for one in REAL.values())}),
    measure=rejections.measure,
    columns=("power", "error", "1%", "warned", "refused", "seconds"),
    runs=100,
    rows=rejections.rates,
    takes=rejections.takes,
    follows_defaults=rejections.follows_defaults,
    small={
        "data": [
            *("linear", "xor of 3", "nfsic: sign, d = 2", "samples: mean, halves", "rows: AR(0.9)"),
            *("additive, given 1, effect 0.5", "labels: even groups, 0.4 values a row"),
        ],
        "methods": [
            *("default", "features", "chain", "nfsic random, chi-square", "two_sample_test"),
            *("conditional_independence_test", "its argument", "labels", "numbers"),
        ],
        "sizes": [200, 300, 500],
        "runs": 2,
    },
    picture=picture,
)
