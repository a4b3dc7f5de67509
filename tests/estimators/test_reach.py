"""Names take as many landmarks as fit, and a refusal tells how many would fit."""

import re
from dataclasses import replace

import numpy as np
import pytest

import dhsic
from dhsic._work import REFERENCE, Work
from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.estimators import choose_estimator
from dhsic.estimators.reach import (
    Offer,
    Way,
    first_that_fits,
    noun_of,
    planned,
    powers_below,
    size_of,
    telling,
    with_size,
)
from dhsic.io.open import open_variables
from dhsic.kernels import Combinations, Gaussian, OnColumns

SINGLE = Combinations.single([Gaussian(), Gaussian()])
MEMORY = 1000

pytestmark = pytest.mark.usefixtures("no_libraries")


def rows(n, d=1):
    """Rows that take no memory."""
    return np.broadcast_to(np.arange(d, dtype="float32"), (n, d))


def session_of(*data, memory=2**31, seconds=None, threads=1):
    runtime = replace(Runtime.here(threads, memory), seconds=seconds)
    return Session(open_variables(data, None), runtime, 0)


def plan_taking(needed, seconds=0.0):
    runtime = Runtime.here(1, MEMORY)
    step = DriverStep("work", needed, work=Work.of(calls=seconds / REFERENCE.seconds["calls"]))
    return Plan(100, ("x",), None, runtime, (step,), 0, "take less")


class Planned:
    """Plans of offers, which remember that they were made."""

    def __init__(self):
        self.made = []

    def offer(self, number, needed, seconds=0.0, least_seconds=0.0):
        def plan():
            self.made.append(number)
            return plan_taking(needed, seconds)

        return Offer(number, f"{number} landmarks", plan, least_seconds)


SESSION = session_of(rows(100), rows(100), memory=MEMORY)


@pytest.mark.parametrize(
    ("needs", "chosen"),
    [
        ([[900, 800]], 64),
        ([[2001, 1000, 10]], 32),
        ([[4000, 3000, 2000, 500, 10]], 8),
        ([[4000, 3000], [2000, 900]], 16),
        ([[4000, 3000], [2000, 1500]], 16),  # none fits: the last, which is then refused
    ],
)
def test_first_that_fits__is_the_largest_of_the_first_kind_that_fits(needs, chosen):
    planned, numbers = Planned(), iter(2**k for k in range(6, 0, -1))
    if len(needs) == 2:
        numbers = iter((64, 32, 32, 16))
    offers = [[planned.offer(next(numbers), need) for need in some] for some in needs]
    found, reason = first_that_fits(SESSION, offers)
    assert found == chosen
    if chosen == 64:
        assert (reason, planned.made) == ("", [64])
    else:
        took = f"since 64 landmarks would take 0.1 s of one thread and {needs[0][0] / 1024:.1f} KiB"
        assert reason == f"{chosen} landmarks, {took}: allow so much for them"


def test_first_that_fits__fits_the_time_that_is_allowed():
    planned = Planned()
    offers = [[planned.offer(k, 10, seconds=k * 20.0) for k in (64, 32, 16)]]
    assert first_that_fits(SESSION, offers)[0] == 16  # of ten minutes
    long = session_of(rows(100), rows(100), memory=MEMORY, seconds=700)
    assert first_that_fits(long, offers)[0] == 32


def test_first_that_fits__plans_nothing_that_takes_far_too_long():
    planned = Planned()
    offers = [
        [
            planned.offer(64, 10, least_seconds=601.0),
            planned.offer(32, 10, least_seconds=600.0),
            planned.offer(16, 10),
        ]
    ]
    found, reason = first_that_fits(SESSION, offers)
    assert found == 32
    assert 64 not in planned.made
    assert "since 64 landmarks would take more than 10 min of one thread" in reason


def test_powers_below__go_down_to_the_fewest():
    assert powers_below(100, 16) == [100, 64, 32, 16]
    assert powers_below(64, 16) == [64, 32, 16]
    assert powers_below(10, 16) == [10]


SIZED = [
    (dhsic.NystromMHSIC, 800, "landmarks"),
    (dhsic.NystromHSIC, 200, "landmarks"),
    (dhsic.COCO, 200, "landmarks"),
    (dhsic.RFFHSIC, 100, "features"),
    (dhsic.NFSIC, 10, "locations"),
    (dhsic.BlockHSIC, 100, "rows of a block"),
]


@pytest.mark.parametrize(("estimator", "usual", "noun"), SIZED)
def test_size__is_the_option_that_memory_follows(estimator, usual, noun):
    assert (size_of(estimator(), 10_000), noun_of(estimator())) == (usual, noun)
    assert size_of(with_size(estimator(), 7), 10_000) == 7
    assert size_of(dhsic.VHSIC(), 10_000) is None


@pytest.mark.parametrize(
    "estimator", [dhsic.NystromMHSIC, dhsic.NystromHSIC, dhsic.COCO, dhsic.CKA]
)
def test_name__takes_as_many_landmarks_as_fit(estimator):
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    session = session_of(*data, memory=12 * 2**20)
    usual = size_of(estimator(), session.n)
    counts = usual, *(2**k for k in range(10, 5, -1) if 2**k < usual)
    fits = [estimator(p).plan(session, SINGLE, None).fits for p in counts]
    found = dhsic.hsic(*data, estimator=estimator.name, memory="12MiB", rng=0, threads=1)
    assert not fits[0]
    assert found.landmarks.drawn == counts[fits.index(True)]
    first = f"{found.landmarks.drawn} landmarks, since {usual:,} landmarks would take"
    assert found.estimator_reason.startswith(first)


def test_name__fits_the_time():
    for seconds, count in ((20, 1024), (5, 256)):
        session = session_of(rows(10**6, 20), rows(10**6), seconds=seconds)
        found = choose_estimator("nystrom-m", session, SINGLE, "auto", None)
        assert found.estimator == dhsic.NystromMHSIC(count)


def test_value__is_taken_as_it_is_and_refused_with_what_fits():
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    options = {"kernels": "gaussian", "memory": "64MiB", "threads": 1}
    with pytest.raises(MemoryBudgetError, match=r"at most ([\d,]+) landmarks would fit") as refused:
        dhsic.hsic(*data, estimator=dhsic.NystromMHSIC(4000), rng=0, **options)
    words = str(refused.value).split("at most ")[1]
    most = int(words.split()[0].replace(",", ""))
    session = session_of(*data, memory=2**26)
    fits = [dhsic.NystromMHSIC(p).plan(session, SINGLE, None).fits for p in (most, most + 1)]
    assert fits == [True, False]


def test_refusal__tells_rows_where_all_pairs_are_asked_for():
    def most_of(n):
        """Rows that a refusal tells; n where there is none."""
        data = rows(n, 2), rows(n)
        try:
            dhsic.plan(*data, kernels="gaussian", estimator="v-hsic", **options).check()
        except MemoryBudgetError as error:
            return int(
                re.search(r"at most ([\d,]+) rows would fit", str(error))[1].replace(",", "")
            )
        return n

    options = {"memory": "64MiB", "threads": 1, "null": "gamma"}
    most = most_of(10**7)
    assert most_of(most) == most
    # blocks of other numbers of rows take a little more or less
    assert 0.99 * most <= most_of(most + most // 10) < most + most // 10


@pytest.mark.parametrize(
    ("combinations", "noun"),
    [
        (
            dhsic.Grid(dhsic.Candidates(factors=(1, 2, 4, 8)), combine="all").combinations(2),
            "combinations of kernels",
        ),
        (
            Combinations.against([OnColumns(Gaussian(), (j,)) for j in range(17)], Gaussian()),
            "features",
        ),
    ],
)
def test_refusal__tells_combinations(combinations, noun):
    def planner(estimator, session, some):
        return plan_taking(estimator.n_landmarks + 100 * len(some))

    refused = planned(planner, dhsic.NystromMHSIC(300), SESSION, combinations)
    with pytest.raises(MemoryBudgetError, match=f"; at most 7 {noun} would fit$"):
        refused.check()


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 99])
def test_telling__finds_the_largest_number_that_fits(most):
    def plan(k):
        return plan_taking(MEMORY * k // most)

    refused = telling(plan(100), [Way("landmarks", 100, plan), Way("rows", 100, plan, fewest=9)])
    with pytest.raises(MemoryBudgetError) as found:
        refused.check()
    largest = max(k for k in range(1, 100) if plan(k).fits)
    rows_too = f" or {largest:,} rows" if largest >= 9 else ""
    assert str(found.value).endswith(f"; at most {largest:,} landmarks{rows_too} would fit")


def test_choice__is_the_same_with_any_number_of_threads():
    data = rows(200_000, 20), rows(200_000)
    for name in ("auto", "nystrom-m", "nystrom-hsic"):
        one, many = (
            choose_estimator(name, session_of(*data, threads=k), SINGLE, "auto", None)
            for k in (1, 4)
        )
        assert one.estimator == many.estimator
