"""Mistakes of users, each with the remedy that its error names."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DhsicError, UnknownArgumentError

X, Y, Z = np.random.default_rng(0).standard_normal((3, 50))
TABLE = pd.DataFrame({"AT": X, "PE": Y, "when": pd.date_range("2020", periods=50)})

MIXED = pd.DataFrame({"AT": X, "kind": list("abcde") * 10})

MODULES = (dhsic, dhsic.analysis, dhsic.bench, dhsic.causal, dhsic.report)
FUNCTIONS = [
    pytest.param(function, id=f"{module.__name__}.{name}")
    for module in MODULES
    for name in module.__all__
    if inspect.isfunction(function := getattr(module, name))
]
TAKES_ANYTHING = {"register", "unregister"}

MEANT = {
    "seed": "rng",
    "random_state": "rng",
    "random_seed": "rng",
    "kernel": "kernels",
    "bandwidth": "kernels",
    "gamma": "kernels",
    "n_perm": "n_resamples",
    "n_perms": "n_resamples",
    "n_permutations": "n_resamples",
    "num_permutations": "n_resamples",
    "reps": "n_resamples",
    "resamples": "n_resamples",
    "n_jobs": "threads",
    "n_workers": "threads",
    "method": "estimator",
    "dtype": "precision",
    "verbose": "progress",
    "timeout": "time",
    "memory_limit": "memory",
    "df": "data",
    "nan_policy": "missing",
    "labels": "names",
    "estimater": "estimator",
    "kernel_s": "kernels",
}


@pytest.mark.parametrize("name", MEANT)
def test_argument__of_another_name_is_recognised(name):
    with pytest.raises(TypeError, match=f"did you mean '{MEANT[name]}'") as caught:
        dhsic.independence_test(X, Y, **{name: 1})
    assert isinstance(caught.value, UnknownArgumentError)
    assert isinstance(caught.value, DhsicError)
    assert f"no argument {name!r}" in str(caught.value)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function__says_what_it_takes(function):
    parameters = inspect.signature(function).parameters
    if (
        not parameters
        or function.__name__ in TAKES_ANYTHING
        or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    ):
        return
    with pytest.raises(
        UnknownArgumentError, match=f"{function.__name__} has no argument 'zzqx'; it"
    ):
        function(zzqx=1)
    if "rng" in parameters:
        with pytest.raises(UnknownArgumentError, match="did you mean 'rng'"):
            function(seed=1)


def test_too_many_positions__are_refused_with_what_goes_by_name():
    with pytest.raises(UnknownArgumentError, match=r"too many .*takes x, y, given and by name m"):
        dhsic.conditional_independence_test(X, Y, Y, "kernel")
    with pytest.raises(UnknownArgumentError, match=r"missing .*it takes first, second$"):
        dhsic.mmd()


def test_variables__are_given_by_position():
    with pytest.raises(UnknownArgumentError, match="no argument 'x'; variables are given by posit"):
        dhsic.independence_test(x=X, y=Y)


@pytest.mark.parametrize(
    ("action", "remedy"),
    [
        (lambda: dhsic.independence_test("AT", "PE"), "pass the table too, as data=table"),
        (lambda: dhsic.hsic("AT", "PE", weights="w"), "pass the table too, as data=table"),
        (lambda: dhsic.independence_test("AT", "PEE", data=TABLE), "did you mean 'PE'"),
        (lambda: dhsic.independence_test("AT", Y, data=TABLE), "leave out data= to pass arrays"),
        (lambda: dhsic.independence_test("AT", [], data=TABLE), "name of a column or a list of"),
        (lambda: dhsic.independence_test("AT", "PE", data=X), "data must be a data frame, an xar"),
        (lambda: dhsic.independence_test("AT", "AT", data=TABLE), "must be 2 different words"),
        (lambda: dhsic.independence_test("AT", "when", data=TABLE), "turn times into numbers"),
        (lambda: dhsic.independence_test(TABLE), "'when'.* turn times into numbers"),
        (lambda: dhsic.independence_test(X, Y, missing="omit"), "one of 'refuse', 'drop'"),
        (lambda: dhsic.independence_test(X, Y, rng=-1), "rng must be an integer >= 0"),
        (lambda: dhsic.independence_test(X, Y, rng="zero"), "what else numpy.random.default_rng"),
        (lambda: dhsic.independence_test(X), "at least two variables, got 1"),
        (
            lambda: dhsic.independence_test(X, list("abcde") * 10, kernels="gaussian"),
            "would compare as numbers: take 'delta', or leave the kernel out",
        ),
        (
            lambda: dhsic.independence_test(X, list("abcde") * 10, estimator="dcov"),
            "holds categories: take estimator='auto'",
        ),
        (
            lambda: dhsic.independence_test(X, list("abcde") * 10, estimator="rff-hsic"),
            "holds categories: take estimator='auto'",
        ),
        (
            lambda: dhsic.independence_test(
                X, pd.DataFrame({"a": list("abcde") * 10, "b": Y}), kernels="gaussian"
            ),
            "take 'gaussian@1\\*delta@0', or leave the kernel out",
        ),
        (lambda: dhsic.rank_features(TABLE[["AT"]], "PE"), "pass the table too, as data=table"),
        (lambda: dhsic.mean_embedding(list("abcde") * 10), "make x a categorical column of pandas"),
        (
            lambda: dhsic.independence_test(
                TABLE["AT"], pd.Series(pd.period_range("2020", periods=50))
            ),
            "got Period: turn times into numbers",
        ),
        (
            lambda: dhsic.rank_features(MIXED, Y, by="sensitivity", rng=0),
            "got 'gaussian@0\\*delta@1': leave out those of labels",
        ),
        (
            lambda: dhsic.select_features(MIXED, Y, 1, method="linear", rng=0),
            "'linear' takes features of numbers.*: leave them out, or take 'forward'",
        ),
        (lambda: dhsic.caussal, "has no attribute 'caussal'"),
    ],
)
def test_mistake__has_its_remedy(action, remedy):
    with pytest.raises((DhsicError, AttributeError), match=remedy):
        action()


@pytest.mark.parametrize(
    "rng",
    [
        3,
        np.int64(3),
        [3, 4],
        np.random.SeedSequence(3),
        np.random.PCG64(3),
        np.random.default_rng(3),
    ],
    ids=lambda rng: type(rng).__name__,
)
def test_rng__is_what_numpy_takes(rng):
    made = {np.random.PCG64: np.random.PCG64, np.random.Generator: np.random.default_rng}
    again = made[type(rng)](3) if type(rng) in made else rng
    first = dhsic.independence_test(X, Y, rng=rng, null="permutation", n_resamples=20)
    second = dhsic.independence_test(X, Y, rng=again, null="permutation", n_resamples=20)
    assert first.seed == second.seed
    assert first.pvalue == second.pvalue


def test_checkpoint__may_be_a_path(tmp_path):
    options = {"rng": 0, "n_resamples": 20}
    found = dhsic.independence_test(X, Y, checkpoint=tmp_path / "kept", **options)
    again = dhsic.independence_test(X, Y, checkpoint=str(tmp_path / "kept"), **options)
    assert (tmp_path / "kept").is_dir()
    assert found.statistic == again.statistic


def test_modules__are_there_after_one_import():
    code = (
        "import json, sys, dhsic\n"
        "names = ['analysis', 'bench', 'causal', 'cluster', 'report']\n"
        "before = [n for n in names if f'dhsic.{n}' in sys.modules]\n"
        "there = [getattr(dhsic, n).__name__ for n in names]\n"
        "print(json.dumps([before, there, set(names) <= set(dir(dhsic))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, there, listed = json.loads(done.stdout)
    assert before == ["analysis"] or before == []
    assert there == [f"dhsic.{n}" for n in ("analysis", "bench", "causal", "cluster", "report")]
    assert listed


@pytest.fixture
def flights(tmp_path):
    """A group as `dhsic convert table` writes it."""
    rng = np.random.default_rng(0)
    carrier = rng.integers(0, 3, 300)
    group = zarr.create_group(tmp_path / "flights.zarr")
    columns = {"columns": ["ArrDelay"]}
    delay = 2.0 * (carrier == 1) + rng.standard_normal(300)
    group.create_array("delay", data=delay[:, None], attributes=columns)
    told = {"columns": ["Carrier"], "kind": "categorical", "categories": {"Carrier": list("ABC")}}
    group.create_array("carrier", data=1.0 * carrier[:, None], attributes=told)
    both = {"columns": ["Distance", "AirTime"]}
    group.create_array("length", data=rng.standard_normal((300, 2)), attributes=both)
    return str(tmp_path / "flights.zarr")


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_command__takes_the_kernels_that_the_store_asks_for(flights):
    done = run("test", flights, "--variable", "delay", "--variable", "carrier")
    assert done.exit_code == 0
    assert "carrier (1 column, delta)" in done.stdout
    assert "independence rejected" in done.stdout


def test_command__ranks_columns_by_their_names(flights):
    done = run("rank", flights, "--features", "length", "--target", "carrier")
    assert done.exit_code == 0
    assert "Distance" in done.stdout
    assert "length[0]" not in done.stdout
    grouped = ("--group", "all=Distance,AirTime", "--group", "one=1")
    done = run("rank", flights, "--features", "length", "--target", "delay", *grouped)
    assert done.exit_code == 0
    assert "all" in done.stdout


def test_command__refuses_rows_where_columns_are_meant(flights):
    done = run("test", flights, "--variable", "a=length[0:1]", "--variable", "delay")
    assert done.exit_code == 2
    assert "write [:, 0:1] if these are columns" in done.stderr
    chosen = run("test", flights, "--variable", "length[:, AirTime]", "--variable", "delay")
    assert chosen.exit_code == 0


@pytest.mark.parametrize("option", ["--json", "--report", "--performance-report"])
def test_command__keeps_files_that_exist(flights, tmp_path, option):
    kept = tmp_path / "kept.out"
    kept.write_text("old")
    words = ("test", flights, "--variable", "delay", "--variable", "carrier", option, kept)
    refused = run(*words)
    assert refused.exit_code == 2
    assert f"{option}: {kept} exists: give another name, or --overwrite" in refused.stderr
    assert kept.read_text() == "old"
    if option != "--performance-report":
        assert run(*words, "--overwrite").exit_code == 0
        assert kept.read_text() != "old"


PAIR = ("--variable", "delay", "--variable", "carrier")
COMMANDS = {
    "rank": ("--features", "length", "--target", "delay"),
    "sensitivity": ("--variable", "delay", "--variable", "length"),
    "interaction": (*PAIR, "--variable", "length"),
    "two-sample": ("--sample", "delay", "--sample", "b=length[:, 0]"),
    "cause direction": ("--variable", "delay", "--variable", "b=length[:, 0]"),
    "cause residuals": (*PAIR, "--given", "length"),
    "conditional": (*PAIR, "--given", "length"),
    "cause dags": ("--variable", "delay", "--variable", "b=length[:, 0]"),
    "cause order": ("--variable", "delay", "--variable", "b=length[:, 0]"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command__keeps_files_that_exist(flights, tmp_path, command):
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    refused = run(*command.split(), flights, *COMMANDS[command], "--json", kept)
    assert (refused.exit_code, kept.read_text()) == (2, "old")
    assert f"--json: {kept} exists: give another name, or --overwrite" in refused.stderr


FLAGS = {
    "weak": lambda _, flag: dhsic.bench.scaling_study(X, Y, vary={"rows": [24]}, weak=flag),
    "allow_missing_chunks": lambda place, flag: dhsic.stored_array(
        place / "x", allow_missing_chunks=flag
    ),
    "overwrite": lambda place, flag: dhsic.mean_embedding(X, rng=0).save(
        place / "it.npz", overwrite=flag
    ),
    "compress": lambda place, flag: dhsic.sensitivity_map(X, Y, rng=0).to_zarr(
        place / "map.zarr", compress=flag
    ),
}


@pytest.mark.parametrize("flag", [[], "no", 1, np.zeros(3)], ids=str)
@pytest.mark.parametrize("name", FLAGS)
def test_flags__are_true_or_false(name, flag, tmp_path):
    zarr.create_array(tmp_path / "x", data=X)
    with pytest.raises(DhsicError, match=f"{name} must be True or False, got"):
        FLAGS[name](tmp_path, flag)
