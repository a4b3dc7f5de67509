"""How often independent data are rejected, by every function and every test by name.

Functions are called without options, on 27 kinds of data that everyday tables hold, and estimators
with every null that stands with them, on four kinds, and with samples, rows that are not
exchangeable and variables that are independent given others. M counts the variables: for a ranking
all but the last are features, for a test of samples they are samples of together n rows, and of
causal functions the causes count too. Causal functions have approximate p-values of residuals,
which show the errors of the fit where the noise is rare, discrete or without a variance. "as if
exchangeable" is the test that is not told of the rows. Tests of other packages need the extra
`discovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import norm

import dhsic
from benchmarks.shared import rejections
from benchmarks.shared.cases import NULL_CASES, Rng, one_kernel
from benchmarks.shared.conditional_data import CASES as CONDITIONAL
from benchmarks.shared.conditional_data import ONLY_DEPENDENT
from benchmarks.shared.dependent_data import CASES as DEPENDENT
from benchmarks.shared.null_data import KINDS, Drawing
from benchmarks.shared.rejections import Drawn, Method, Source, whole
from dhsic import causal
from dhsic.estimators.choose import ESTIMATORS, nulls_of

NUMBERS = (2, 3, 4, 5)
SIZES = (10, 50, 200, 300, 500, 1000, 5000, 10_000, 20_000)
ARGUMENTS: dict[str, Any] = {"threads": 1}


def _of_kind(kind: str, how: Callable[[Drawing, int], Any]) -> Callable[[int, Rng], Drawn]:
    def draw(n: int, rng: Rng) -> Drawn:
        drawing = Drawing(kind, rng)
        return Drawn(how(drawing, n), {"precision": KINDS[kind].precision})

    return draw


def _sizes(n: int, m: int) -> list[int]:
    """Of samples: they grow as 1, 2, ..., M, but are two rows at least."""
    sizes = [max(2, n * k // sum(range(m + 1))) for k in range(1, m)]
    return [*sizes, n - sum(sizes)]


def given_data(case: str, d: int, effect: float = 0.0) -> Callable[[int, Rng], Drawn]:
    def draw(n: int, rng: Rng) -> Drawn:
        x, y, z = CONDITIONAL[case](rng, n, d, effect)
        return Drawn([x, y], {"given": z})

    return draw


def rows_data(case: str, effect: float = 0.0) -> Callable[[int, Rng], Drawn]:
    def draw(n: int, rng: Rng) -> Drawn:
        (x, y), asked = DEPENDENT[case](n, rng)
        return Drawn([x, y + effect * np.abs(x - np.median(x))], asked)

    return draw


WAYS: Mapping[str, tuple[str, Callable[..., Any], tuple[int, ...]]] = {
    "": ("variables", lambda d, n, m: d.variables(n, m), ()),
    "samples: ": ("samples", lambda d, n, m: d.samples(_sizes(n, m)), ()),
    "interacting: ": ("interacting", lambda d, n, m: d.interacting(n), ()),
    "given: ": ("two effects", lambda d, n, m: d.caused(n, m - 2, 2), (50, 200)),
    "one cause: ": ("one cause", lambda d, n, m: d.caused(n, 1, m - 1), (50, 200)),
}
"""How data of a kind and M variables are drawn: the group that takes them, and their sizes."""


def sources() -> dict[str, Source]:
    """All kinds of independent data."""
    found = {
        f"{prefix}{kind}, M = {m}": Source(
            f"{group} of 1" if group == "one cause" and m == 2 else group,
            _of_kind(kind, partial(how, m=m)),
            sizes,
        )
        for kind, m, (prefix, (group, how, sizes)) in product(KINDS, NUMBERS, WAYS.items())
        if not (prefix == "interacting: " and m != 3) and not (prefix == "given: " and m < 3)
    }
    for case, m in product(NULL_CASES, (2, 3)):
        draw = partial(_named, case=case, m=m)
        sizes = (200, 2000) if case in ("gaussian", "heavy tails") else (200,)
        found[f"{case}, M = {m}"] = Source("by name", draw, sizes)
    for case, d in product(CONDITIONAL, (1, 2, 3, 5, 10, 20)):
        if case not in ONLY_DEPENDENT and (case != "categories" or d == 1):
            found[f"{case}, given {d}"] = Source("given", given_data(case, d))
    for case in DEPENDENT:
        found[case] = Source("rows", rows_data(case), (500, 1000))
    return found


def _named(n: int, rng: Rng, case: str, m: int) -> Any:
    return NULL_CASES[case](n, m, rng)


def rank(*data: Any, **options: Any) -> Any:
    return dhsic.rank_features(np.hstack(data[:-1]), data[-1], **options)


def residuals_of(*data: Any, **options: Any) -> Any:
    *given, x, y = data
    return causal.residual_independence_test(x, y, given=given, **options)


def score_truth(*nodes: Any, **options: Any) -> Any:
    names = [f"x{j}" for j in range(len(nodes))]
    truth = causal.DAG(tuple(names), ((), *((0,) for _ in names[1:])))
    return causal.score_dags(*nodes, names=names, dags=[truth], **options)


def direction(x: Any, y: Any, *, precision: str, **options: Any) -> Any:
    return causal.direction(x, y, **options)


def exchangeable(x: Any, y: Any, *, rng: int, kernels: Any = None, **options: Any) -> Any:
    """As if nothing was known of the rows."""
    chosen = {"estimator": options.get("estimator", "auto"), "kernels": kernels}
    return dhsic.independence_test(x, y, rng=rng, threads=1, **chosen)


FUNCTIONS: dict[str, tuple[str, Callable[..., Any], Mapping[str, Any]]] = {
    "independence_test": ("variables", dhsic.independence_test, {"": whole}),
    "two_sample_test": ("samples", dhsic.two_sample_test, {"": whole}),
    "dependence_matrix": (
        "variables",
        dhsic.dependence_matrix,
        {
            "one pair": lambda found: found.pvalues[0, -1],
            "Holm": lambda found: found.adjusted[np.triu_indices(len(found.names), 1)].min(),
        },
    ),
    "rank_features": (
        "variables",
        rank,
        {
            "one feature": lambda found: found.features[0].pvalue,
            "max-t": lambda found: min(one.pvalue_max_t for one in found.features),
        },
    ),
    "interaction_test": (
        "interacting",
        dhsic.interaction_test,
        {"whole": whole, "true factorisation": lambda found: found.factorisations[-1].pvalue},
    ),
    "residual_independence_test": ("two effects", residuals_of, {"": whole}),
    "direction": ("one cause of 1", direction, {"": lambda found: found.forward.pvalue}),
    "conditional_independence_test": ("given", dhsic.conditional_independence_test, {"": whole}),
    "independence_test, as if exchangeable": ("rows", exchangeable, {"": whole}),
    "independence_test, its argument": ("rows", dhsic.independence_test, {"": whole}),
}

OPTIONS: dict[str, list[Any]] = {
    "gamma": [dhsic.Gamma()],
    "spectral": [dhsic.Spectral()],
    "normal": [dhsic.Normal(variance=v) for v in ("direct", "permutation", "empirical")],
    "chi-square": [dhsic.ChiSquare()],
    "martingale": [dhsic.Martingale()],
    "permutation": [dhsic.Permutation(99, within="all")],
    "shifts": [dhsic.Shifts()],
    "chain": [dhsic.Chain()],
}
PAIRS: list[tuple[Any, Any, int | None]] = [
    *(
        (cls(), null, 2 if name == "martingale" else cls.most_variables)
        for name, nulls in OPTIONS.items()
        for null in nulls
        for cls in ESTIMATORS.values()
        if name in {one.name for one in nulls_of(cls)}
    ),
    (dhsic.NystromMHSIC(), dhsic.Permutation(99, within="groups", group_rows=100), None),
    (dhsic.VHSIC(), dhsic.Permutation(99, within="groups", group_rows=100), None),
    (dhsic.RFFHSIC(orthogonal=True), dhsic.Spectral(), 2),
    (dhsic.RFFHSIC(form="complex"), dhsic.Permutation(99, within="all"), 2),
    (dhsic.DCov(unbiased=True), dhsic.Spectral(), 2),
]


def label(value: Any) -> str:
    """The name of an estimator or a null, with the options that are not at their defaults."""
    options = [
        f"{one.name}={getattr(value, one.name)}"
        for one in fields(value)
        if getattr(value, one.name) != one.default
    ]
    return " ".join([value.name, *options])


def kci(x: Any, y: Any, *, given: Any, rng: int) -> float:
    """The test of causal-learn, with its defaults."""
    from causallearn.utils.KCI.KCI import KCI_CInd

    np.random.seed(rng)  # noqa: NPY002  # it draws from the global generator
    return float(KCI_CInd().compute_pvalue(x[:, None], y[:, None], given)[0])


def rcit(x: Any, y: Any, *, given: Any, rng: int) -> float:
    """The test of causal-learn, with its defaults."""
    from causallearn.utils.RCIT.RCIT import RCIT

    np.random.seed(rng)  # noqa: NPY002  # it draws from the global generator
    return float(RCIT().compute_pvalue(x[:, None], y[:, None], given)[0])


def gcm(x: Any, y: Any, *, given: Any, rng: int) -> float:
    """The generalised covariance measure."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    del rng
    regression = make_pipeline(SplineTransformer(n_knots=8), RidgeCV(np.logspace(-4, 4, 9)))
    left = [target - regression.fit(given, target).predict(given) for target in (x, y)]
    products = left[0] * left[1]
    return float(2 * norm.sf(len(x) ** 0.5 * abs(products.mean()) / products.std()))


OTHERS = {"kci": kci, "rcit": rcit, "gcm": gcm}


def methods() -> dict[str, Method]:
    """All tests."""
    found = {
        name: Method((group,), partial(call, **ARGUMENTS), pvalues)
        for name, (group, call, pvalues) in FUNCTIONS.items()
    }
    graphs = {"": lambda one: one.pvalues[0]}
    every = ("one cause", "one cause of 1")
    found["score_dags"] = Method(every, partial(score_truth, **ARGUMENTS), graphs)
    one = partial(
        dhsic.independence_test, estimator="nystrom-hsic", kernels="gaussian", **ARGUMENTS
    )
    found["independence_test, its argument, one kernel"] = Method(("rows",), one)
    found["independence_test, as if exchangeable, one kernel"] = Method(
        ("rows",), partial(exchangeable, kernels="gaussian", estimator="nystrom-hsic")
    )
    found["nystrom-m, tuples"] = Method(
        ("variables",), partial(dhsic.independence_test, estimator="nystrom-m", **ARGUMENTS)
    )
    found["residual_independence_test, gamma"] = Method(
        ("given",), partial(causal.residual_independence_test, null="gamma", **ARGUMENTS)
    )
    for estimator, null, most in PAIRS:
        test = partial(
            dhsic.independence_test,
            estimator=estimator,
            null=null,
            kernels=one_kernel(estimator),
            **ARGUMENTS,
        )
        name = f"{label(estimator)}, {label(null)}"
        found[name] = Method(("by name",), test, most_variables=most, default=False)
    found |= {
        name: Method(("given",), call, {"": float}, 2000, default=False)
        for name, call in OTHERS.items()
    }
    return found


STUDY = rejections.of_rejections(
    name="level",
    title="Do tests keep their level, by default and by name?",
    data=sources(),
    methods=methods(),
    sizes=(*SIZES, 2000),
    columns=(*rejections.COLUMNS, "warned", "unwarned", "seconds"),
    runs=1000,
    small={
        "data": ["5% dummies, M = 2", "gaussian, M = 3", "AR(0.9)", "additive, given 1"],
        "methods": [
            *("independence_test", "rank_features", "independence_test, its argument"),
            *("nystrom-m, gamma", "dcov, gamma", "conditional_independence_test"),
        ],
        "sizes": [200, 500],
        "runs": 2,
    },
)
