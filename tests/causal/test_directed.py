"""Directions wherever they run: streamed, on workers, planned, kept in a checkpoint."""

import numpy as np
import pytest
import zarr
from distributed import get_task_stream

import dhsic
from dhsic import causal
from dhsic.engine.checkpoint import CheckpointWarning
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.errors import InvalidArgumentError, MemoryBudgetError

MANY = np.broadcast_to(np.float64(0.0), 2_000_000)
SPLINES = {"criterion": "hsic", "estimator": dhsic.NystromMHSIC(20), "rng": 0}


def caused(n, seed=0):
    x, noise = np.random.default_rng(seed).uniform(-1.0, 1.0, (2, n))
    return x, x + x**3 + 0.6 * noise


class Seen:
    """A listener that remembers, and stops a run at a block of a pass."""

    def __init__(self, stop=None):
        self.stop, self.events = stop, []

    def __call__(self, event):
        self.events.append(event)
        if isinstance(event, BlockFinished) and event.name == self.stop:
            raise KeyboardInterrupt

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two variables of several chunks, in storage."""
    folder = tmp_path_factory.mktemp("direction")
    for name, x in zip("xy", caused(30_000), strict=True):
        zarr.create_array(folder / f"{name}.zarr", data=x, chunks=(4096,))
    return [str(folder / f"{name}.zarr") for name in "xy"]


def test_stored_variables__are_streamed_to_the_same_score(stored):
    found = causal.direction(*stored, **SPLINES)
    here = causal.direction(*caused(30_000), **SPLINES)
    assert found.score == pytest.approx(here.score, rel=1e-9)
    assert found.score > 0.0
    assert (found.n, len(found.data)) == (30_000, 2)
    names = [one.name for one in found.passes]
    assert names.count("regressions") == 2
    assert all(one.blocks > 1 for one in found.passes)


def test_client__runs_the_tasks(stored, client):
    with get_task_stream(client) as stream:
        found = causal.direction(*stored, client=client, **SPLINES)
    assert len(stream.data) > 4
    assert found.score == pytest.approx(causal.direction(*stored, **SPLINES).score, rel=1e-9)
    with pytest.raises(InvalidArgumentError, match="threads must be left out"):
        causal.direction(*stored, client=client, threads=1, **SPLINES)


def test_rows__are_all_where_they_fit():
    plan = causal.plan_direction(MANY, MANY, threads=1)
    assert plan.n == 2_000_000
    assert plan.fits
    assert plan.work.seconds() <= 600


@pytest.mark.parametrize(
    "options",
    [{"estimator": "v-hsic"}, {"regression": "gaussian-process"}, {"regression": "random-forest"}],
    ids=lambda options: next(iter(options.values())),
)
def test_rows__are_as_many_as_fit(options):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    plan = causal.plan_direction(MANY, MANY, threads=1, **options)
    assert plan.n < 2_000_000
    assert plan.fits
    assert plan.work.seconds() <= 600
    quick = causal.plan_direction(MANY, MANY, threads=1, time=10, **options)
    assert quick.work.seconds() <= 10 < plan.work.seconds()
    twice = causal.plan_direction(MANY, MANY, threads=1, max_rows=2 * plan.n, **options)
    assert not twice.fits or twice.work.seconds() > 600


def test_memory__refuses_what_was_asked_for_and_tells_what_would_fit():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    options = {"regression": "gaussian-process", "threads": 1}
    message = r"max_rows.*at most [\d,]+ rows would fit"
    with pytest.raises(MemoryBudgetError, match=message):
        causal.direction(MANY, MANY, max_rows=100_000, **options)
    small = causal.plan_direction(MANY, MANY, memory="300MiB", time="9h", **options)
    assert small.n < causal.plan_direction(MANY, MANY, time="9h", **options).n


def test_rows__of_a_result_say_why():
    x, y = caused(3000)
    options = {"criterion": "hsic", "estimator": dhsic.VHSIC(), "rng": 0, "threads": 1}
    found = causal.direction(x, y, time=0.04, **options)
    assert found.n < 3000
    assert f"{found.n:,} rows, since 3,000 rows would take" in found.rows_reason
    assert found.rows_reason in dict(found.summary())["n"]
    asked = causal.direction(x, y, max_rows=found.n, **options)
    assert (asked.score, asked.n) == (found.score, found.n)
    assert asked.rows_reason != found.rows_reason


def test_plan__is_told_before_it_runs(monkeypatch):
    # Else a plan counts the libraries that this process has loaded so far.
    monkeypatch.setattr("dhsic.engine.memory.LIBRARIES", 0)
    x, y = caused(400)
    seen = Seen()
    causal.direction(x, y, rng=0, progress=seen)
    plan = causal.plan_direction(x, y)
    assert seen.events[0] == plan.started
    assert [event.name for event in seen.of(PassStarted)] == [one.name for one in plan.passes]


def refuse(*arguments):
    pytest.fail("regressed again")


FOREST = causal.CrossFitted("random-forest", n_folds=2)


@pytest.mark.parametrize("criterion", ["p-value", "hsic", "sensitivity"])
@pytest.mark.parametrize("regression", ["splines", FOREST], ids=["splines", "forest"])
def test_checkpoint__goes_on_to_the_same_bits(criterion, regression, tmp_path, monkeypatch):
    if regression is FOREST:
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    x, y = caused(150)
    options = {"criterion": criterion, "regression": regression, "rng": 0, "kernel": "gaussian:0.5"}
    options["estimator"] = dhsic.RFFHSIC(20)
    quiet = causal.direction(x, y, **options)
    kept = causal.direction(x, y, checkpoint=str(tmp_path / "kept"), **options)
    monkeypatch.setattr(causal.CrossFitted, "residuals", refuse)
    seen = Seen()
    again = causal.direction(x, y, checkpoint=str(tmp_path / "kept"), progress=seen, **options)
    assert quiet.score == kept.score == again.score
    assert (again.forward, again.backward) == (quiet.forward, quiet.backward)
    assert seen.of(BlockFinished) == []
    assert seen.of(PassStarted)


def test_checkpoint__goes_on_after_an_interrupt(stored, tmp_path):
    folder = str(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        causal.direction(*stored, checkpoint=folder, progress=Seen("kernel sums"), **SPLINES)
    seen = Seen()
    again = causal.direction(*stored, checkpoint=folder, progress=seen, **SPLINES)
    assert again.score == causal.direction(*stored, **SPLINES).score
    done = [event.resumed == event.amount for event in seen.of(PassStarted)]
    assert done[:2] == [True, True]
    assert not all(done)


def test_checkpoint__of_another_run_is_refused(tmp_path):
    x, y = caused(100)
    options = {"checkpoint": str(tmp_path / "kept"), "rng": 0}
    causal.direction(x, y, criterion="hsic", **options)
    for changed in ({"criterion": "sensitivity"}, {"kernel": "laplacian"}, {"max_rows": 50}):
        with pytest.raises(InvalidArgumentError, match="is of another run"):
            causal.direction(x, y, **{"criterion": "hsic", **options, **changed})
    with pytest.raises(InvalidArgumentError, match="rng must be a seed"):
        causal.direction(x, y, checkpoint=str(tmp_path / "other"))
    with pytest.raises(InvalidArgumentError, match="rng must be a seed"):
        causal.directions([(x, y)], checkpoint=str(tmp_path / "other"))


def test_batch__keeps_every_pair(tmp_path):
    pairs = {"a/b": caused(100, 1), "c": caused(100, 2)}
    options = {"criterion": "hsic", "rng": 0, "checkpoint": str(tmp_path / "kept")}
    first = causal.directions(pairs, **options)
    seen = Seen()
    again = causal.directions(pairs, progress=seen, **options)
    assert again.scores.tolist() == first.scores.tolist()
    assert seen.of(BlockFinished) == []
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["pair0001", "pair0002"]
    with pytest.raises(InvalidArgumentError, match=r"pair 'c': checkpoint .* is of another run"):
        causal.directions({**pairs, "c": caused(90, 2)}, **options)


OTHERS = {
    "graphs": lambda *data, **options: causal.score_dags(*data, **options).pvalues,
    "search": lambda *data, **options: causal.search_dag(*data, **options).pruning,
    "given": lambda x, y, **options: (
        causal.residual_independence_test(x, y, given=x**2 + y, **options).pvalue
    ),
}


@pytest.mark.parametrize("run", [pytest.param(run, id=name) for name, run in OTHERS.items()])
def test_other_functions__go_on_to_the_same_bits(run, tmp_path):
    data, options = caused(200), {"rng": 0, "checkpoint": str(tmp_path / "kept")}
    quiet = run(*data, rng=0)
    assert run(*data, **options) == quiet
    seen = Seen()
    assert run(*data, progress=seen, **options) == quiet
    assert seen.of(BlockFinished) == []
    assert seen.of(PassStarted)
    with pytest.raises(InvalidArgumentError, match="is of another run"):
        run(*data, **{**options, "rng": 1})


@pytest.mark.parametrize("run", [pytest.param(run, id=name) for name, run in OTHERS.items()])
def test_other_functions__refuse_regressions_that_do_not_fit(run):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    data = np.zeros((2, 100_000))
    with pytest.raises(MemoryBudgetError, match="regression of"):
        run(*data, regression="gaussian-process", rng=0)


def test_checkpoint__regresses_again_what_is_torn(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    options = {"regression": FOREST, "criterion": "hsic", "rng": 0}
    options["checkpoint"] = str(tmp_path / "kept")
    first = causal.direction(*caused(100), **options)
    (torn, _) = [
        folder
        for folder in (tmp_path / "kept").iterdir()
        if folder.is_dir() and "regression of" in (folder / "pass.json").read_text()
    ]
    (torn / "shard-0000").write_bytes(b"torn")
    with pytest.warns(CheckpointWarning, match="computed again"):
        again = causal.direction(*caused(100), **options)
    assert again.score == first.score
