"""Calls of every public function that takes data, and the places where data may lie."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import dask.array as da
import numpy as np
import zarr

import dhsic
from dhsic import causal

N = 96
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = X[:, :1] ** 2 + RNG.standard_normal((N, 1))
Z = RNG.standard_normal((N, 1))
ROW = np.arange(N)
DATA = {"x": X, "y": Y, "z": Z, "first": X[:, 0], "site": ROW % 3, "fours": ROW // 4}
DATA |= {"weights": 1.0 + ROW % 5, "gapped": np.where(ROW % 7 == 3, np.nan, X[:, 0])}
RESAMPLES = 19
KERNEL = "gaussian:0.5"
ROUGH = "laplacian:0.5"  # keeps all landmarks, of which a run may take fewer passes otherwise


@dataclass(frozen=True)
class Call:
    """A call of a public function: arguments that are data stand by their names in `DATA`."""

    function: Callable
    data: tuple[str, ...] = ("x", "y")
    options: dict = field(default_factory=dict)
    named: tuple[tuple[str, str], ...] = ()
    plan: Callable | None = None
    bits: bool = True  # results have the same bits whatever the blocks; regressions have not

    @property
    def names(self):
        """The variables that it takes."""
        return (*self.data, *(of for _, of in self.named))

    def __call__(self, data=None, **where):
        return self._called(self.function, data, {"rng": 0, **where})

    def planned(self, data=None, **where):
        return self._called(self.plan, data, where)

    def _called(self, function, data, where):
        data = DATA if data is None else data
        named = {name: data[of] for name, of in self.named}
        return function(*(data[name] for name in self.data), **named, **self.options, **where)


test = partial(Call, dhsic.independence_test, plan=dhsic.plan)
regressing = partial(Call, bits=False)


def few(name, null="shifts"):
    """A test by an estimator with few landmarks or features."""
    estimator = {
        "nystrom-m": dhsic.NystromMHSIC(12),
        "nystrom-hsic": dhsic.NystromHSIC(12),
        "rff-hsic": dhsic.RFFHSIC(12),
        "coco": dhsic.COCO(12),
        "cka": dhsic.CKA(12),
        "nfsic": dhsic.NFSIC(n_locations=2, training_rows=50),
    }.get(name, name)
    takes_kernels = name not in {"dcov", "dcor", "sub-corr"}
    options = {"kernels": ROUGH} if takes_kernels else {}
    resampling = {"n_resamples": RESAMPLES} if null in {"shifts", "permutation", "chain"} else {}
    return {"estimator": estimator, "null": null, **options, **resampling}


def directions(x, y, z, **options):
    return causal.directions({"a": (x, y), "b": (z, y)}, **options)


def like(x, y, **options):
    """An embedding with the landmarks and the kernel of another."""
    seed, checkpoint = options.pop("rng"), options.pop("checkpoint", None)
    fitted = dhsic.mean_embedding(x, KERNEL, 10, rng=seed)
    return fitted.like(y, checkpoint=checkpoint, **options)


RANK = {"estimator": dhsic.NystromHSIC(12), "feature_kernels": ROUGH, "target_kernel": ROUGH}
THREE = ("x", "y", "z")
GRID = dhsic.Grid(dhsic.Candidates("laplacian", (0.5, 1.0)))
CALLS = {
    "test": test(),
    "test of three": test(data=THREE),
    "test in float32": test(options={"precision": "float32"}),
    "test of a grid": test(options={"kernels": GRID, "estimator": "v-hsic"}),
    "test of features of a grid": test(options=few("nystrom-hsic") | {"kernels": GRID}),
    "test within strata": test(named=(("strata", "site"),)),
    "test of groups": test(named=(("groups", "fours"),)),
    "test with weights": test(named=(("weights", "weights"),)),
    "test with gaps": test(data=("gapped", "y"), options={"missing": "pairwise"}),
    "test of a series": test(options={"order": dhsic.TimeOrder(lag=4), **few("nystrom-hsic")}),
    **{
        f"{name}, {null}": test(options=few(name, null))
        for name, *nulls in (
            ("v-hsic", "shifts", "permutation", "gamma", "spectral", "martingale"),
            ("u-hsic", "shifts", "permutation"),
            ("u-cka", "shifts"),
            ("dcov", "shifts", "gamma"),
            ("dcor", "shifts"),
            ("sub-hsic", "shifts"),
            ("block-hsic", "normal"),
            ("nystrom-m", "shifts", "permutation", "gamma", "spectral"),
            ("nystrom-hsic", "shifts", "permutation", "gamma", "martingale"),
            ("rff-hsic", "shifts", "spectral"),
            ("nfsic", "shifts", "chi-square"),
            ("cka", "shifts"),
            ("nocco", "shifts"),
            ("coco", "shifts"),
            ("sub-corr", "shifts"),
        )
        for null in nulls
    },
    "v-hsic of three": test(data=THREE, options=few("v-hsic", "permutation")),
    "nystrom-m of three": test(data=THREE, options=few("nystrom-m", "permutation")),
    "hsic": Call(dhsic.hsic),
    "interval": Call(dhsic.hsic, options={"confidence": 0.9}),
    "minimum": test(options={"minimum": 0.1, **few("nystrom-hsic")}),
    "difference": Call(dhsic.dependence_difference, THREE, plan=dhsic.plan_difference),
    "hsic of three": Call(dhsic.hsic, THREE, {"estimator": "nystrom-m"}),
    "matrix": Call(dhsic.dependence_matrix, THREE, {"n_landmarks": 12}, plan=dhsic.plan_matrix),
    "matrix with intervals": Call(
        dhsic.dependence_matrix,
        THREE,
        {"n_landmarks": 12, "confidence": 0.9},
        plan=dhsic.plan_matrix,
    ),
    "lags": Call(dhsic.lag_scan, options={"lags": 5, "kernels": ROUGH}, plan=dhsic.plan_lag_scan),
    "lags by features": Call(
        dhsic.lag_scan,
        options={"lags": range(8), "estimator": dhsic.NystromHSIC(12)},
        plan=dhsic.plan_lag_scan,
    ),
    "matrix, martingale": Call(
        dhsic.dependence_matrix, THREE, {"null": "martingale"}, plan=dhsic.plan_matrix
    ),
    "ranking": Call(dhsic.rank_features, options=RANK, plan=dhsic.plan_ranking),
    "ranking with intervals": Call(
        dhsic.rank_features, options=RANK | {"confidence": 0.9}, plan=dhsic.plan_ranking
    ),
    "ranking by maps": Call(
        dhsic.rank_features,
        options=RANK
        | {
            "by": "sensitivity",
            "estimator": dhsic.NystromMHSIC(12),
            "feature_kernels": "imq:1",
            "target_kernel": "imq:1",
        },
    ),
    "selection": Call(dhsic.select_features, options={"k": 1}),
    "map": Call(dhsic.sensitivity_map, options={"estimator": dhsic.NystromMHSIC(12)}),
    "embedding": Call(dhsic.mean_embedding, ("x",), {"n_landmarks": 10}),
    "embedding like another": Call(like, ("y", "z")),
    "witnesses": Call(dhsic.witness_functions, options={"estimator": dhsic.COCO(12)}),
    "two samples": Call(dhsic.two_sample_test, ("y", "z"), plan=dhsic.plan_two_sample),
    "two samples with intervals": Call(
        dhsic.two_sample_test, ("y", "z"), {"confidence": 0.9}, plan=dhsic.plan_two_sample
    ),
    "two samples by landmarks": Call(
        dhsic.two_sample_test,
        ("y", "z"),
        few("nystrom-m") | {"estimator": "nystrom-mmd"},
        plan=dhsic.plan_two_sample,
    ),
    "interaction": Call(
        dhsic.interaction_test, THREE, {"kernels": ROUGH}, plan=dhsic.plan_interaction
    ),
    "conditional": Call(
        dhsic.conditional_independence_test, named=(("given", "z"),), plan=dhsic.plan_conditional
    ),
    "residuals": regressing(
        causal.residual_independence_test, ("first", "y"), named=(("given", "z"),)
    ),
    "direction": regressing(causal.direction, ("first", "y"), plan=causal.plan_direction),
    "direction by sensitivity": regressing(
        causal.direction, ("first", "y"), {"criterion": "sensitivity"}, plan=causal.plan_direction
    ),
    "directions": regressing(directions, ("first", "y", "z")),
    "graphs": regressing(causal.score_dags, ("first", "y")),
    "search": regressing(causal.search_dag, ("first", "y", "z")),
}


def places_of(place, names, folder=None, rows=17, columns=1):
    """Variables where they are said to lie, in chunks of so many rows and columns.

    Stored ones lie in a folder, or in memory where there is none.
    """
    found = {}
    for name in names:
        values = DATA[name]
        chunks = (rows, columns)[: values.ndim]
        lies = {"x": "zarr", "first": "zarr", "z": "dask"}.get(name) if place == "mixed" else place
        if lies == "zarr":
            store = zarr.storage.MemoryStore() if folder is None else folder / f"{name}.zarr"
            found[name] = zarr.create_array(store, data=values, chunks=chunks)
        else:
            found[name] = da.from_array(values, chunks=chunks) if lies == "dask" else values
    return found


OF_THE_RUN = {"seconds", "passes", "data", "version"}


def answer(result):
    """All that a result says, but for where and how long it was computed."""

    def without(value):
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in OF_THE_RUN}
        return [without(one) for one in value] if isinstance(value, list) else value

    return without(json.loads(result.to_json()))


class Heard:
    """A listener that remembers what it is told, and ends a run where it is asked to."""

    def __init__(self, ends_at=lambda heard, event: False):
        self.ends_at, self.events = ends_at, []

    def __call__(self, event):
        self.events.append(event)
        if self.ends_at(self, event):
            raise KilledError

    def of(self, kind):
        """Events of a kind, by the name of its class."""
        return [event for event in self.events if type(event).__name__ == kind]


class KilledError(Exception):
    """A run is ended from outside."""


def kill_at_each_pass(killed):
    """Ends a run at the first block of a pass at which none was ended before."""

    def ends_at(heard, event):
        if type(event).__name__ != "BlockFinished" or event.name in killed:
            return False
        killed.append(event.name)
        return True

    return ends_at


def differs(found, expected, call):
    """Where two answers differ first, if anywhere: in any bit, or by more than rounding."""
    if isinstance(expected, dict) and isinstance(found, dict):
        pairs = [(found.get(key), expected.get(key)) for key in {*found, *expected}]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = list(zip(found, expected, strict=True))
    elif isinstance(expected, float) and not call.bits:
        close = math.isclose(found, expected, rel_tol=1e-10, abs_tol=1e-12)
        return None if close else (found, expected)
    else:
        return None if found == expected else (found, expected)
    return next((one for pair in pairs if (one := differs(*pair, call))), None)


def check_plan(call, data, heard, **where):
    """The run that was heard took the steps of its plan, and read what the plan says."""
    plan = call.planned(data, **where)
    assert steps_of(heard.events) == [step.name for step in plan.steps]
    read = [one.bytes_read for one in heard.of("PassFinished") if one.unit.endswith("rows")]
    assert read == [step.bytes_read for step in plan.passes]
    return plan


def steps_of(events):
    """Names of the passes over data and of the steps that ran, in their order."""
    names = []
    for event in events:
        kind = type(event).__name__
        if kind == "StepStarted" or (kind == "PassStarted" and event.unit.endswith("rows")):
            names.append(event.name)
        elif kind == "PassStarted" and names[-1:] != [event.name]:
            names.append(event.name)  # over resamples, and not within a step of that name
    return names
