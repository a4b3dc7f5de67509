"""What is planned is what runs, of every estimator with every null, and of every public function.

Landmarks are few and kernels rough enough that pruning keeps all of them: where it keeps less, a
run may take fewer passes than planned.
"""

from dataclasses import fields
from functools import partial

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.causal import direction, residual_independence_test, score_dags, search_dag
from dhsic.engine.events import PassStarted, StepStarted
from dhsic.engine.plan import PassPlan
from dhsic.engine.session import Session
from dhsic.estimators import TABLE, ColumnEstimator
from dhsic.nulls import Chain, Multiplier, Permutation, Shifts
from dhsic.twosample import MMD_ESTIMATORS

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

LANDMARKS = FEATURES = 12
RESAMPLES = 19
RESAMPLING = {Shifts, Permutation, Multiplier, Chain}
NULLS = {null for entry in TABLE for null in entry.nulls}
ROUGH = "laplacian:0.5"
SMALL, LINEAR, QUADRATIC = 200, 5_000, 400  # rows: of one task, and of several
CHUNKS = {SMALL: 60, LINEAR: 1_500, QUADRATIC: 150}


def rows(n, m, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((n, 2)) for _ in range(m)]


def small(estimator):
    """A value of an estimator with few landmarks or features, or locations found on few rows."""
    names = {one.name for one in fields(estimator)}
    sizes = {"n_landmarks": LANDMARKS, "n_features": FEATURES}
    sizes |= {"n_locations": 2, "training_rows": 50}
    return estimator(**{name: size for name, size in sizes.items() if name in names})


def with_few(null):
    return null(RESAMPLES) if null in RESAMPLING else null()


def expected(steps):
    """Passes as they will be told of, and names of other steps."""
    return [step.started if isinstance(step, PassPlan) else step.name for step in steps]


class Heard:
    """The passes that ran, and names of other steps."""

    def __init__(self):
        self.steps = []

    def __call__(self, event):
        if isinstance(event, StepStarted):
            self.steps.append(event.name)
        elif isinstance(event, PassStarted) and event.unit != "resamples":
            self.steps.append(event)
        elif isinstance(event, PassStarted) and self.steps[-1:] != [event.name]:
            # Tasks over resamples are no pass over the data; else they are of the step before.
            self.steps.append(event.name)


def check(run, plan, data, **options):
    heard = Heard()
    run(*data, rng=0, progress=heard, **options)
    assert heard.steps == expected(plan(*data, **options).steps)
    return heard.steps


def placed(place, data, tmp_path, request):
    """The data where they are, and where to run."""
    if place == "client":
        return data, {"client": request.getfixturevalue("client")}
    if place == "zarr":
        rows = CHUNKS[max(map(len, data))]
        data = [
            zarr.create_array(tmp_path / f"{number}.zarr", data=x, chunks=(rows, x.shape[1]))
            for number, x in enumerate(data)
        ]
    return data, {"threads": 2}


def size(entry, place):
    if place == "array":
        return SMALL
    return QUADRATIC if entry.cost == "n^2" else LINEAR


def shifts_two(entry, null):
    """Whether shifts of an estimator that takes more variables take two alone."""
    return entry.estimator is dhsic.RFFHSIC and null is Shifts


def cells(of=TABLE, nulls=NULLS, variables=2):
    return pytest.mark.parametrize(
        ("entry", "null"),
        [
            pytest.param(entry, null, id=f"{entry.estimator.name}-{null.name}")
            for entry in of
            for null in entry.nulls
            if null in nulls and not (variables > 2 and shifts_two(entry, null))
        ],
    )


every_place = pytest.mark.parametrize("place", ["array", "zarr", "client"])
tries_grids = [entry for entry in TABLE if entry.grids]
takes_three = [entry for entry in TABLE if entry.most_variables is None]
tests_samples = [entry for entry in TABLE if entry.estimator in MMD_ESTIMATORS.values()]
ranks = [entry for entry in TABLE if issubclass(entry.estimator, ColumnEstimator)]


def options_of(entry, null):
    usual = {"kernels": ROUGH} if entry.grids else {}
    return {"estimator": small(entry.estimator), "null": with_few(null), **usual}


@pytest.mark.sampled(4)
@every_place
@cells()
def test_independence_test__runs_its_plan(entry, null, place, tmp_path, request):
    data, where = placed(place, rows(size(entry, place), 2), tmp_path, request)
    check(dhsic.independence_test, dhsic.plan, data, **options_of(entry, null), **where)


@pytest.mark.sampled(4)
@every_place
@cells(takes_three, variables=3)
def test_joint_test__runs_its_plan(entry, null, place, tmp_path, request):
    data, where = placed(place, rows(size(entry, place), 3), tmp_path, request)
    check(dhsic.independence_test, dhsic.plan, data, **options_of(entry, null), **where)


@pytest.mark.sampled(2)
@every_place
@cells(tries_grids, RESAMPLING)
def test_grid__runs_its_plan(entry, null, place, tmp_path, request):
    m = 2 if entry.most_variables or shifts_two(entry, null) else 3
    data, where = placed(place, rows(size(entry, place), m), tmp_path, request)
    options = options_of(entry, null)
    options["kernels"] = [dhsic.Candidates("laplacian", (0.5, 1.0))] * m
    check(dhsic.independence_test, dhsic.plan, data, **options, **where)


@every_place
@cells(ranks, RESAMPLING - {Chain})
def test_ranking__runs_its_plan(entry, null, place, tmp_path, request):
    x, y = rows(size(entry, place), 2)
    data, where = placed(place, (np.hstack([x, y]), y), tmp_path, request)
    options = {
        "estimator": small(entry.estimator),
        "null": with_few(null),
        "feature_kernels": ROUGH,
        "target_kernel": ROUGH,
        **where,
    }
    check(dhsic.rank_features, dhsic.plan_ranking, data, **options)


@pytest.mark.sampled(4)
@every_place
@cells(tests_samples)
def test_two_sample_test__runs_its_plan(entry, null, place, tmp_path, request):
    n = size(entry, place)
    x, y = rows(n, 2)
    data, where = placed(place, (x, y[: n // 2]), tmp_path, request)
    check(dhsic.two_sample_test, dhsic.plan_two_sample, data, **options_of(entry, null), **where)


@every_place
@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        (dhsic.NystromMHSIC(LANDMARKS), "shifts"),
        (dhsic.NystromMHSIC(LANDMARKS), "permutation"),
        (dhsic.NystromMHSIC(LANDMARKS), "multiplier"),
        (dhsic.VHSIC(), "permutation"),
        (dhsic.VHSIC(), "multiplier"),
    ],
)
def test_interaction_test__runs_its_plan(estimator, null, place, tmp_path, request):
    data, where = placed(place, rows(QUADRATIC, 3), tmp_path, request)
    options = {"kernels": ROUGH, "estimator": estimator, "null": null, "n_resamples": RESAMPLES}
    check(dhsic.interaction_test, dhsic.plan_interaction, data, **options, **where)


@pytest.mark.parametrize(
    "options",
    [
        {"n_landmarks": "auto"},
        {"n_landmarks": LANDMARKS, "selection": "kmeans++"},
        {"n_landmarks": LANDMARKS, "selection": "leverage"},
    ],
)
def test_landmarks__are_chosen_as_planned(options):
    estimator = dhsic.NystromMHSIC(**options)
    data = rows(SMALL, 2)
    steps = check(dhsic.independence_test, dhsic.plan, data, estimator=estimator, kernels=ROUGH)
    assert {"grow landmarks", "select landmarks"} & set(steps)


@pytest.mark.parametrize("placement", ["optimised", "random"])
def test_locations__are_placed_as_planned(placement):
    estimator = dhsic.NFSIC(placement=placement)
    steps = check(dhsic.independence_test, dhsic.plan, rows(SMALL, 2), estimator=estimator)
    assert ("optimise locations" in steps) == (placement == "optimised")


@pytest.fixture
def planned(monkeypatch):
    """What sessions are told that they will run."""
    steps = []

    def expect(session, plan, usual=Session.expect):
        steps.extend(plan.steps)
        usual(session, plan)

    monkeypatch.setattr(Session, "expect", expect)
    return steps


def heard(run, data, **options):
    told = Heard()
    run(*data, rng=0, progress=told, **options)
    return told.steps


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.estimator.name) for entry in TABLE])
def test_estimate__runs_its_plan(entry, planned):
    for m in (2, 3)[: 1 + (entry.most_variables is None)]:
        planned.clear()
        usual = {"kernels": ROUGH} if entry.grids else {}
        estimator = small(entry.estimator)
        assert heard(dhsic.hsic, rows(SMALL, m), estimator=estimator, **usual) == expected(planned)


OTHERS = {
    "pairs, shifts": partial(dhsic.dependence_matrix, n_landmarks=LANDMARKS, null="shifts"),
    "pairs, spectral": partial(dhsic.dependence_matrix, n_landmarks=LANDMARKS, null="spectral"),
    "witness": partial(dhsic.witness_functions, estimator=dhsic.COCO(LANDMARKS)),
    "map of T": partial(dhsic.sensitivity_map, estimator=dhsic.NystromMHSIC(LANDMARKS)),
    "map of v-hsic": partial(dhsic.sensitivity_map, estimator="v-hsic"),
    "map of rff": partial(dhsic.sensitivity_map, estimator=dhsic.RFFHSIC(FEATURES)),
    "rank by maps": partial(
        dhsic.rank_features,
        by="sensitivity",
        estimator=dhsic.NystromMHSIC(LANDMARKS),
        feature_kernels="imq:1",
        target_kernel="imq:1",
    ),
    "select": partial(dhsic.select_features, k=1, estimator=dhsic.NystromMHSIC(LANDMARKS)),
    "select, linear": partial(dhsic.select_features, k=1, method="linear"),
    "select, lasso": partial(dhsic.select_features, k=1, method="lasso"),
    "graphs": partial(score_dags, estimator=dhsic.NystromMHSIC(LANDMARKS), null="gamma"),
    "graphs, pairs": partial(score_dags, estimator="v-hsic", null="spectral"),
    "graphs, shifts": partial(score_dags, estimator="v-hsic", null="shifts"),
    "order": partial(search_dag, estimator="v-hsic", null="gamma"),
    "direction": partial(direction, estimator=dhsic.NystromMHSIC(LANDMARKS)),
    "direction, pairs": partial(direction, criterion="hsic"),
    "direction, maps": partial(direction, criterion="sensitivity", estimator=dhsic.RFFHSIC(9)),
    "direction, rows": partial(direction, max_rows=150),
    "conditional": lambda *data, **options: dhsic.conditional_independence_test(
        *data, given=rows(len(data[0]), 1, seed=1)[0], **options
    ),
    "given": lambda *data, **options: residual_independence_test(
        *data, given=rows(len(data[0]), 1, seed=1)[0], **options
    ),
}


@pytest.mark.parametrize("n", [SMALL, QUADRATIC])
@pytest.mark.parametrize("run", [pytest.param(run, id=name) for name, run in OTHERS.items()])
def test_other_functions__run_their_plans(run, n, planned):
    steps = heard(run, rows(n, 2))
    later = "write the map"  # when it is asked for
    assert steps == [step for step in expected(planned) if step != later]
    assert any(isinstance(step, PassStarted) for step in steps)


def test_embedding__runs_its_plan(planned):
    for options in ({}, {"selection": "kmeans++"}):
        planned.clear()
        steps = heard(dhsic.mean_embedding, rows(SMALL, 1), n_landmarks=LANDMARKS, **options)
        assert steps == expected(planned)
