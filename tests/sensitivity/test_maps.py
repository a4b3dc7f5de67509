"""What `sensitivity_map` takes and returns: every option, any data, any chunks."""

import tracemalloc

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted, RunStarted
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.open import open_variables
from dhsic.kernels import Delta, Gaussian, Linear, Polynomial

N = 9000  # three blocks of memory
FEW = 300
QUICK = {"nystrom-m": dhsic.NystromMHSIC(n_landmarks=30), "rff-hsic": dhsic.RFFHSIC(n_features=15)}
LINEAR = ["nystrom-m", "rff-hsic"]


def dependent(n=FEW, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, n, 3))
    return x, np.sin(2 * x[:, 1:2]) + 0.3 * rng.standard_normal((n, 1)), z


def run(*data, **options):
    """A map, of the first two variables where none are given."""
    data = data or dependent()[:2]
    return dhsic.sensitivity_map(*data, **{"rng": 0, "threads": 2, **options})


def computed(found):
    return dict(zip(found.names, dask.compute(*found.maps.values()), strict=True))


def with_samples(found):
    return dask.compute(*found.maps.values(), found.samples)


def assert_same(one, other, rtol=1e-9):
    assert one.value == pytest.approx(other.value, rel=rtol)
    assert one.names == other.names
    for values, expected in zip(with_samples(one), with_samples(other), strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=0, atol=rtol * scale)
    for name in one.names:
        np.testing.assert_allclose(one.features[name], other.features[name], rtol=1e2 * rtol)


# What is returned


def test_sensitivities__are_the_mean_squares_of_the_map():
    found = run(*dependent())
    maps = computed(found)
    assert {name: values.shape for name, values in maps.items()} == {
        "x1": (FEW, 3),
        "x2": (FEW, 1),
        "x3": (FEW, 3),
    }
    for name, values in maps.items():
        np.testing.assert_allclose(found.features[name], (values**2).mean(axis=0), rtol=1e-12)
    whole = np.hstack(list(maps.values()))
    np.testing.assert_allclose(found.samples, (whole**2).mean(axis=1), rtol=1e-12)


def test_sensitivities__mark_the_column_that_matters():
    found = run()
    assert found.top("x1") == [1, *found.top("x1")[1:]]
    assert found.features["x1"][1] > 3 * found.features["x1"][[0, 2]].max()


def test_maps__are_lazy_and_chunked_as_the_row_blocks(tmp_path):
    x, y, _ = dependent(N)
    stored = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(4500, 3))
    found = run(stored, y, estimator=QUICK["rff-hsic"])
    assert found.maps["x1"].chunks == ((4500, 4500), (3,))
    assert found.maps["x2"].chunks == ((4500, 4500), (1,))
    assert found.samples.chunks == ((4500, 4500),)
    assert found.maps["x1"].dtype == np.float64
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"")
    first = found.maps["x1"][:4500].compute()
    assert np.isfinite(first).all()
    with pytest.raises(DataError, match="rows 4500 to 8999 of variable 'x1' cannot be read"):
        found.maps["x1"].compute()


def test_maps__that_are_computed_together_share_their_work():
    found = run(*dependent(N)[:2], estimator=QUICK["rff-hsic"])
    together = dask.delayed(list)([*found.maps.values(), found.samples])
    keys = [str(key) for key in together.dask if "_rows" in str(key)]
    assert len(keys) == found.rows.plan.blocks == 3


def test_blocks__hold_as_many_as_there_are_threads():
    told = []
    found = run(*dependent(N)[:2], estimator=QUICK["rff-hsic"], progress=told.append, threads=1)
    told.clear()
    blocks = found.rows.blocks()
    for number in range(3):
        next(blocks)
        assert sum(isinstance(event, BlockFinished) for event in told) == number + 1


def test_units__are_those_of_the_measure_over_the_variable():
    x, y, _ = dependent()
    metres, millimetres = run(x, y), run(1000 * x, y)
    np.testing.assert_allclose(
        1000 * millimetres.maps["x1"].compute(), metres.maps["x1"].compute(), rtol=1e-6
    )


def test_result__is_frozen_and_says_what_it_is():
    found = run(names=["timbre", "year"], of="estimate")
    assert found.names == ("timbre", "year")
    with pytest.raises(AttributeError):
        found.value = 0.0
    with pytest.raises(ValueError, match="read-only"):
        found.features["year"][0] = 1.0
    with pytest.raises(TypeError):
        found.features["year"] = 1.0
    text = str(found)
    assert "columns of timbre  1 (" in text
    assert "of the estimate, 300 rows in 1 block" in text
    page = found._repr_html_()
    assert page.startswith("<div class='dhsic-result'>")
    assert "columns of year" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("z",), "name must be one of 'x1', 'x2', got 'z'"),
        (("x1", 0), "count must be an integer >= 1, got 0"),
        (("x1", -1), "count must be an integer >= 1, got -1"),
        (("x1", 1.5), "count must be an integer >= 1"),
    ],
)
def test_top__refuses(arguments, message):
    found = run(*dependent()[:2])
    with pytest.raises(InvalidArgumentError, match=message):
        found.top(*arguments)


def test_summary__shows_as_many_columns_as_asked():
    lines = dict(run().summary(2))
    assert lines["columns of x1"].startswith("1 (")
    assert lines["columns of x1"].endswith("), 1 more")
    assert lines["columns of x2"] == "x2 (100.0%)"


def single_columns(n=FEW):
    x, y, _ = dependent(n)
    return x[:, 1], y[:, 0]


@pytest.mark.parametrize("estimator", [*LINEAR, "v-hsic"])
def test_points__are_rows_of_the_data_with_their_derivatives(estimator):
    x, y = single_columns(600)
    found = run(x, da.from_array(y, chunks=170), names=["x", "y"], estimator=estimator)
    maps = computed(found)
    for most, step in ((600, 1), (599, 2), (100, 6), (7, 86)):
        points = found.points(most)
        np.testing.assert_array_equal(points.x, x[::step])
        np.testing.assert_array_equal(points.y, y[::step])
        np.testing.assert_allclose(points.in_x, maps["x"][::step, 0], rtol=1e-12)
        np.testing.assert_allclose(points.in_y, maps["y"][::step, 0], rtol=1e-12)


def test_points__across_row_blocks_and_workers(client):
    x, y = single_columns(N)
    found = run(x, y, estimator=QUICK["rff-hsic"], client=client, threads=None)
    assert len(found.rows.plan.bounds) > 2
    points = found.points(1000)
    first, _ = client.compute(list(found.maps.values()), sync=True)
    np.testing.assert_array_equal(points.x, x[::9])
    np.testing.assert_allclose(points.in_x, first[::9, 0], rtol=1e-12)


def test_points__need_two_single_columns_that_are_varied():
    x, y = single_columns()
    for found in (run(), run(x, y, wrt=["x1"]), run(x, y, y)):
        with pytest.raises(InvalidArgumentError, match="points need the map of two variables"):
            found.points()
    with pytest.raises(InvalidArgumentError, match="most must be an integer >= 1"):
        run(x, y).points(0)


def test_plot__draws_points_of_two_columns_and_bars_of_more():
    x, y = single_columns()
    flat = run(x, y, names=["time", "wave"]).plot()
    assert (flat.get_xlabel(), flat.get_ylabel()) == ("time", "wave")
    assert len(flat.collections[0].get_offsets()) == FEW
    wide = run(names=["x", "y"])
    bars = wide.plot()
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == [f"x[{j}]" for j in wide.top("x", 3)]
    assert bars.patches[0].get_width() == pytest.approx(wide.features["x"].max())
    assert len(wide.plot(of="y").patches) == 1
    assert len(wide.plot(most=2).patches) == 2
    assert wide.plot(bars) is bars
    with pytest.raises(InvalidArgumentError, match="of must be one of 'x', 'y'"):
        wide.plot(of="z")
    plt.close("all")


def test_to_json__has_the_summaries_in_full_precision():
    import json

    found = run()
    read = json.loads(found.to_json(indent=1))
    assert (read["result"], read["of"], read["value"]) == (
        "SensitivityMap",
        "statistic",
        found.value,
    )
    assert read["features"] == {name: one.tolist() for name, one in found.features.items()}
    again = dhsic.DependenceEstimate.from_json(json.dumps(read["measured"]))
    assert again == found.measured


# The number behind a map


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("estimator", [*LINEAR, "v-hsic"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_value__is_that_of_the_test_and_of_the_estimate_with_the_same_seed(estimator, m, precision):
    data = dependent()[:m]
    options = {"kernels": "gaussian", "estimator": estimator, "rng": 5, "precision": precision}
    tested = dhsic.independence_test(*data, **options, null="multiplier", n_resamples=3)
    rel = 1e-11 if precision == "float64" else 1e-5
    assert run(*data, **options).value == pytest.approx(tested.statistic, rel=rel)
    estimated = dhsic.hsic(*data, **options)
    found = run(*data, **options, of="estimate")
    assert found.value == estimated.estimate
    assert found.measured.variables == estimated.variables
    assert found.measured.landmarks == estimated.landmarks


def test_of__statistic_of_landmarks_is_n_times_their_estimate_up_to_the_marginals():
    estimator = dhsic.NystromMHSIC(n_landmarks=40, pairing="joint")
    statistic, estimate = (run(estimator=estimator, of=of) for of in ("statistic", "estimate"))
    one, other = statistic.maps["x1"].compute(), FEW * estimate.maps["x1"].compute()
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.9
    assert np.abs(one - other).max() > 1e-6 * np.abs(one).max()


# Data and chunks


@pytest.mark.parametrize("estimator", LINEAR)
@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("chunks", [700, 4500])
@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_chunked__equals_in_memory(kind, chunks, m, estimator, tmp_path):
    data = dependent(N)[:m]
    options = {"estimator": QUICK[estimator]}
    if kind == "dask":
        given = [da.from_array(x, chunks=(chunks, 1)) for x in data]
    else:
        given = [
            zarr.create_array(tmp_path / f"{m}.zarr", data=x, chunks=(chunks, x.shape[1]))
            for m, x in enumerate(data)
        ]
    assert_same(run(*given, **options), run(*data, **options))


def test_chunked__v_hsic_equals_in_memory():
    data = [x[:4500] for x in dependent(N)[:2]]
    given = [da.from_array(x, chunks=(1700, -1)) for x in data]
    chunked, whole = run(*given, estimator="v-hsic"), run(*data, estimator="v-hsic")
    assert chunked.rows.plan.blocks > 1
    assert_same(chunked, whole)


@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr"])
def test_client__gives_the_same(kind, client, tmp_path):
    data = dependent(N)[:2]
    given = {
        "numpy": lambda: data,
        "dask": lambda: [da.from_array(x, chunks=(3000, -1)) for x in data],
        "zarr": lambda: [
            zarr.create_array(tmp_path / f"{m}.zarr", data=x, chunks=(3000, x.shape[1]))
            for m, x in enumerate(data)
        ],
    }[kind]()
    here = run(*data, estimator=QUICK["rff-hsic"])
    there = run(*given, estimator=QUICK["rff-hsic"], client=client, threads=None)
    assert there.features["x1"] == pytest.approx(here.features["x1"], rel=1e-9)
    maps = client.compute(list(there.maps.values()), sync=True)
    for name, values in zip(there.names, maps, strict=True):
        np.testing.assert_allclose(values, here.maps[name], rtol=1e-8, atol=1e-12)
    streamed = np.concatenate([block[0] for block in there.rows.blocks()])
    np.testing.assert_array_equal(streamed, maps[0])


@pytest.mark.parametrize("estimator", [*LINEAR, "v-hsic"])
def test_precision__of_the_map_is_as_asked(estimator):
    options = {"estimator": estimator, "kernels": "gaussian"}
    if estimator == "nystrom-m":
        options["estimator"] = dhsic.NystromMHSIC(n_landmarks=30, tolerance=1e-4)
    single, double = (run(**options, precision=p) for p in ("float32", "float64"))
    assert single.measured.precision == "float32"
    for name, values in computed(single).items():
        assert values.dtype == np.float32
        expected = double.maps[name].compute()
        assert np.abs(values - expected).max() < 2e-3 * np.abs(expected).max()
        assert (values.astype(np.float64) != expected).any()
    assert single.samples.dtype == np.float32


# The engine behind it


def test_blocks__joined_are_what_a_pass_over_the_map_gives():
    found = run(*dependent(N)[:2], estimator=QUICK["rff-hsic"])
    pieces = list(found.rows.blocks())
    assert [len(piece[0]) for piece in pieces] == np.diff(found.rows.plan.bounds).tolist()
    whole = Session(open_variables(dependent(N)[:2]), Runtime.here(2, 2**31), 0).run(
        found.rows.reduction
    )
    for number, array in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([piece[number] for piece in pieces]), array)


# Options


def test_wrt__chooses_the_variables_whose_entries_are_varied():
    data = dependent()
    found, everything = run(*data, wrt=["x3", "x1"]), run(*data)
    assert found.names == ("x1", "x3")
    for name in found.names:
        np.testing.assert_allclose(found.maps[name], everything.maps[name], rtol=1e-12)
    whole = np.hstack(list(computed(found).values()))
    np.testing.assert_allclose(found.samples, (whole**2).mean(axis=1), rtol=1e-12)


def test_wrt__leaves_categories_alone():
    x, y, _ = dependent()
    labels = np.round(y)
    found = run(x, labels, kernels=["gaussian", "delta"], wrt=["x1"])
    assert found.names == ("x1",)
    assert found.top("x1")[0] == 1


def test_rng__draws_landmarks():
    one, same, other = (run(rng=seed).maps["x1"].compute() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_kernels__are_those_asked_for():
    found = run(kernels=[Gaussian(gamma=0.5), "linear"])
    assert [v.kernel for v in found.measured.variables] == ["gaussian:0.5", "linear"]


def test_estimator__options_are_those_asked_for():
    found = run(estimator=dhsic.NystromMHSIC(n_landmarks=17, pairing="joint"))
    assert (found.measured.landmarks.drawn, found.measured.landmarks.pairing) == (17, "joint")
    assert found.rows.reduction.gradient.tiling.n_landmarks == found.measured.landmarks.kept


def test_estimator__auto_takes_one_that_has_a_map():
    assert run(estimator="auto").measured.estimator == "v-hsic"


def test_progress__tells_of_the_passes_that_were_planned():
    told = []
    run(*dependent(N)[:2], estimator=QUICK["rff-hsic"], progress=told.append, threads=3)
    (planned,) = [event for event in told if isinstance(event, RunStarted)]
    started = [event.name for event in told if isinstance(event, PassStarted)]
    assert started == [one.name for one in planned.passes] == ["feature moments", "sensitivities"]
    assert planned.threads == 3
    finished = [event for event in told if isinstance(event, PassFinished)]
    assert [event.amount for event in finished] == [N, N]


def test_passes__of_landmarks_are_those_of_the_measure_and_one_more():
    names = {of: [p.name for p in run(of=of).measured.passes] for of in ("statistic", "estimate")}
    assert names == {
        "statistic": ["kernel sums", "sensitivities"],
        "estimate": ["kernel sums", "sensitivities"],
    }


@pytest.mark.parametrize("estimator", [*LINEAR, "v-hsic"])
def test_memory__is_planned_before_anything_runs(estimator):
    told = []
    with pytest.raises(MemoryBudgetError, match="the plan needs"):
        run(*dependent(20_000), estimator=estimator, memory="100MB", progress=told.append)
    assert not told


def test_memory__is_refused_without_taking_it():
    n = 3_000_000
    x = da.zeros((n, 3), chunks=(n // 2, 3))
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBudgetError, match="the plan needs"):
            run(x, x[:, 0], estimator="v-hsic", memory="400MB")
        assert tracemalloc.get_traced_memory()[1] < 8 * n
    finally:
        tracemalloc.stop()


def test_memory__counts_the_map():
    told = []
    for d in (2, 200):
        x = np.random.default_rng(0).standard_normal((4000, d))
        run(x, x[:, 0], estimator=QUICK["rff-hsic"], progress=told.append)
    narrow, wide = [e.driver_bytes for e in told if isinstance(e, RunStarted)]
    assert wide - narrow > 4000 * 198 * 8


def test_checkpoint__goes_on_where_a_run_stopped(tmp_path):
    told = []
    options = {"estimator": QUICK["rff-hsic"], "checkpoint": str(tmp_path / "kept")}
    data = dependent(N)[:2]
    first = run(*data, **options)
    again = run(*data, **options, progress=told.append)
    started = [event for event in told if isinstance(event, PassStarted)]
    assert [event.resumed for event in started] == [N, N]
    np.testing.assert_array_equal(first.maps["x1"], again.maps["x1"])
    with pytest.raises(InvalidArgumentError, match="of the estimate"):
        run(*data, **options, of="estimate")


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "pvalue"}, "of must be one of 'statistic', 'estimate', got 'pvalue'"),
        ({"wrt": "x1"}, "wrt must be a sequence of names of variables, got 'x1'"),
        ({"wrt": []}, "wrt must be a sequence of names"),
        ({"wrt": 3}, "wrt must be a sequence of names"),
        ({"wrt": ["y1"]}, "wrt must name variables, got 'y1'; there are 'x1', 'x2'"),
        (
            {"wrt": ["yaer"], "names": ["timbre", "year"]},
            r"there are 'timbre', 'year'; did you mean 'year'\?",
        ),
        ({"estimator": "dcov"}, "needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic', got 'dcov'"),
        ({"estimator": "u-hsic"}, "got 'u-hsic': take one of them"),
        ({"kernels": dhsic.Grid.auto()}, "one kernel for each variable, got a Grid"),
        ({"precision": "float16"}, "precision must be one of"),
        ({"names": ["x"]}, "names must be 2 different words"),
    ],
)
def test_options__are_refused_in_words(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        run(**options)


@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic"])
def test_kernels__without_a_derivative_are_refused(estimator):
    x, y, _ = dependent()
    kernels = ["gaussian", Delta() * Linear()]
    message = r"'x2' must have a differentiable kernel .* got 'delta\*linear': take wrt=\['x1'\]"
    with pytest.raises(InvalidArgumentError, match=message):
        run(x, np.round(y), kernels=kernels, estimator=estimator)
    with pytest.raises(InvalidArgumentError, match=r"'x1' must have .*: take another kernel"):
        run(np.round(y), np.round(y), kernels="delta", estimator=estimator)


def test_derivatives__that_overflow_are_refused():
    x, y, _ = dependent()
    steep = Polynomial(degree=8, gamma=1.0) * Polynomial(degree=8, gamma=1.0)
    with pytest.raises(DataError, match=r"derivatives must be finite in float32, .*='float64'"):
        run(40 * x, 40 * y, kernels=steep, estimator="v-hsic", precision="float32")


def test_data__with_missing_values_are_refused():
    x, y, _ = dependent()
    x[7, 1] = np.nan
    with pytest.raises(DataError, match="'x1' has NaN or infinity, first in row 7"):
        run(x, y)
