"""Commands as data: what each prints and writes, and that no option is ignored.

A command gives the result of its function. An option has a case whose JSON differs from that of
the line without it. Refusals are in `tests/test_refusals.py`.
"""

import json
import logging
import re
import shlex
import signal
import warnings
from functools import partial
from html import unescape

import numpy as np
import pytest
import zarr

import dhsic
from dhsic import causal
from dhsic._validation import known_methods
from dhsic.cli import main
from dhsic.cli.app import COMMANDS
from dhsic.cli.command import METHODS
from dhsic.cluster import TLS, ClusterSpec, SchedulerAt
from dhsic.errors import DataError
from dhsic.kernels.wrap import FORMS

XY = "--variable x --variable y"
TEST = f"test data.zarr {XY}"
QUICK = f"{TEST} --kernel gaussian --resamples 50"
NYSTROM = f"{TEST} --kernel gaussian --null shifts:50 --estimator nystrom-m"
RFF = f"{QUICK} --estimator rff-hsic"
NFSIC = f"{TEST} --estimator nfsic --kernel gaussian"
DCOV = f"{TEST} --estimator dcov"
MAP = "sensitivity data.zarr --variable x --variable y"
RANK = "rank data.zarr --features x --target y --resamples 50"
TWO = "two-sample data.zarr --sample x --sample far --kernel gaussian --resamples 50"
MATRIX = "matrix data.zarr --variable x --variable y --variable z"
LAGS = "lags data.zarr --variable x --variable y --lags 2"
THREE = "interaction data.zarr --variable x --variable y --variable z"
GIVEN = "conditional data.zarr --variable x --variable y --given z"
CAUSE = "--variable cause --variable effect"
DAGS = f"cause dags data.zarr {CAUSE}"
ORDER = f"cause order data.zarr {CAUSE}"
DIRECTION = f"cause direction data.zarr {CAUSE}"
RESIDUALS = "cause residuals data.zarr --variable x --variable same --given z --kernel gaussian"
PAIRS = "cause pairs pairs --criterion hsic"
DATA = {"data": "data.zarr", "rng": 3}


def without_seconds(value):
    """A result as JSON but for what differs between two runs."""
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    return [without_seconds(one) for one in value] if isinstance(value, list) else value


def read_arrays(*names):
    group = zarr.open_group("data.zarr", mode="r")
    return [group[name] for name in names]


def read_pairs():
    columns = [np.loadtxt(f"pairs/pair000{number}.txt") for number in range(1, 5)]
    return {f"pair000{k}": (one[:, 0], one[:, 1]) for k, one in enumerate(columns, 1)}


SAME = {
    TEST: lambda: dhsic.independence_test("x", "y", **DATA),
    MAP: lambda: dhsic.sensitivity_map("x", "y", **DATA),
    RANK: lambda: dhsic.rank_features(*read_arrays("x", "y"), rng=3, n_resamples=50),
    MATRIX: lambda: dhsic.dependence_matrix("x", "y", "z", **DATA),
    "two-sample data.zarr --sample x --sample far": lambda: dhsic.two_sample_test(
        "x", "far", **DATA
    ),
    LAGS: lambda: dhsic.lag_scan("x", "y", 2, **DATA),
    f"{LAGS[:-1]}-1:4": lambda: dhsic.lag_scan("x", "y", range(-1, 4), **DATA),
    THREE: lambda: dhsic.interaction_test("x", "y", "z", **DATA),
    GIVEN: lambda: dhsic.conditional_independence_test("x", "y", given="z", **DATA),
    DAGS: lambda: causal.score_dags("cause", "effect", **DATA),
    ORDER: lambda: causal.search_dag("cause", "effect", **DATA),
    DIRECTION: lambda: causal.direction("cause", "effect", **DATA),
    RESIDUALS: lambda: causal.residual_independence_test(
        "x", "same", given="z", kernels="gaussian", **DATA
    ),
    PAIRS: lambda: causal.directions(read_pairs(), criterion="hsic", rng=3),
}


@pytest.mark.parametrize("line", SAME)
def test_command__gives_the_result_of_its_function(line, files, found):
    expected = json.loads(SAME[line]().to_json())
    assert without_seconds(found(f"{line} --seed 3")) == without_seconds(expected)


PRINTED = {
    TEST: ["n             300\n", "kernel combinations tried", "independence rejected at level"],
    f"{QUICK} --confidence 0.9 --minimum 0.01": [
        "interval      ",
        "minimum       dependent, and by",
    ],
    f"plan data.zarr {XY} --confidence 0.9 --minimum 0.01": ["leave blocks out"],
    f"{QUICK} --variable z": ["variables     x (3 columns, gaussian:", "chain"],
    f"{TEST} --kernel gaussian --null gamma --alpha 0.0001": [
        "null          gamma: as asked",
        "level 0.0001\n",
    ],
    f"{QUICK} --null permutation --alpha 0.001": ["50 replicates never can, take 999 or more"],
    "test data.zarr --variable x --variable z --alpha 0.001": ["independence not rejected"],
    "test data.zarr --variable y --variable label": ["label (1 column, delta)"],
    "test table.csv --variable a --variable b,label": ["b,label (2 columns, "],
    MAP: ["columns of x  first (", "columns of y  y (100.0%)"],
    f"{MAP} --top 1": ["%), 2 more"],
    RANK: ["1     first ", "found      1 of 3 at level 0.05 by bh: first"],
    f"{RANK} --top 1 --alpha 0.9 --control max-t": ["at level 0.9 by max-t", "1     first"],
    "rank table.csv --target a": ["features   3", "label"],
    "rank table.csv --features f=b,c --target a": ["features   2"],
    f"{RANK} --confidence 0.9": ["conf low", "cka high", "intervals  90 %"],
    f"{MATRIX} --alpha 0.5 --top 1": ["x  y  estimate  cka", "2 of 3 pairs at level 0.5, by Holm"],
    f"{MATRIX} --confidence 0.9": ["conf low", "cka high", "intervals  90 %"],
    f"{LAGS} --alpha 0.5 --top 1": ["x  y  -2   ", " of 5 lags at level 0.5 by max-T; CKA"],
    TWO: ["samples      x (300), far (200)", "squared MMD", "one distribution rejected at level"],
    f"{TWO} --confidence 0.9": ["interval     0.", " (90 %)"],
    THREE: ["x independent of (y, z): p =", "factorisation not rejected at level 0.05"],
    GIVEN: ["z, which explain", "conditional independence rejected at level"],
    DAGS: ["1 of 3 graphs are not rejected", "minimal     cause -> effect"],
    f"{DAGS} --top 1 --alpha 0.9": ["0 of 3 graphs are not rejected at level 0.9"],
    ORDER: ["graph       cause -> effect"],
    DIRECTION: ["direction        cause -> effect"],
    RESIDUALS: ["residuals     given z, by splines", "independence of residuals not rejected"],
    PAIRS: ["directions  2 forward, 2 backward", "right       100.0% of the weight"],
    f"{PAIRS} --top 2": ["pair0004  x2 -> x1", "pairs       4"],
}


@pytest.mark.parametrize("line", PRINTED)
def test_command__prints_what_it_found(line, files, invoke):
    before = sorted(files.iterdir())
    done = invoke(line)
    assert (done.exit_code, done.stderr) == (0, "")
    for words in PRINTED[line]:
        assert words in done.stdout
    assert "\x1b" not in done.stdout
    assert sorted(files.iterdir()) == before


CHANGED = object()  # any other value than without the option
OPTIONS = {
    TEST: {
        "--kernel laplacian:2": {"variables.0.kernel": "laplacian:2.0"},
        "--confidence 0.9": {"interval.level": 0.9},
        "--minimum 0.01": {"minimum.minimum": 0.01},
        "--kernel gaussian --kernel y=delta": {"variables.1.kernel": "delta"},
        "--kernel 'x=gaussian|imq'": {"grid.combinations.#": CHANGED},
        "--kernel 'grid:factors=0.5|1,combine=all'": {"grid.combinations.#": 4},
        "--kernel 'grid:factors=0.5|2,combine=matched'": {"grid.combinations.#": 2},
        "--kernel grid:aggregate=min-p": {"grid.aggregate": "min-p"},
        "--missing drop --variable gap": {"dropped": 1, "n": 299},
        "--missing pairwise --variable gap": {"missing": [0, 0, 1]},
        "--weights weight": {"null_reason": "the limit law for independent draws with"},
        "--null gamma --kernel gaussian": {"null": "gamma"},
    },
    QUICK: {
        "--variable z": {"variables.#": 3},
        "--variable 'back=x[:, 1:3]'": {"variables.2.name": "back", "variables.2.columns": 2},
        "--strata label": {"null_reason": "within strata"},
        "--groups fives": {"null_reason": "whole groups of equally many rows"},
        "--strata label --strata fives": {"null_reason": "all 3 shifts of"},
        "--order time:lag=12": {"null_reason": "by multiples of 12 rows"},
        "--order time:period=14": {"null_reason": "by multiples of 14 rows"},
        "--estimator u-hsic": {"estimator": "u-hsic"},
        "--estimator nystrom-m:64": {"landmarks.drawn": 64, "estimator": "nystrom-m"},
        "--null permutation": {"null": "permutation", "null_distribution.#": 50},
        "--resamples 3000": {"null_distribution.#": 2999},
        "--seed 9": {"seed": 9},
        "--precision float32": {"precision": "float32"},
    },
    NYSTROM: {
        "--estimator nystrom-m:n_landmarks=2sqrt": {"landmarks.drawn": 35},
        "--estimator nystrom-m:pairing=joint": {"landmarks.pairing": "joint"},
        "--estimator nystrom-m:9,selection=leverage,pool=3": {"landmarks.pool": 27},
        "--null permutation:within=all": {"null_reason": "all rows|whole"},
        "--null permutation:within=groups,group_rows=50": {"null_reason": "groups of 50 rows"},
        "--time 0.001s": {"landmarks.drawn": CHANGED},
    },
    RFF: {
        "--estimator rff-hsic:31": {"features.counts.0": 62},
        "--estimator rff-hsic:form=complex": {"statistic": CHANGED},
        "--estimator rff-hsic:orthogonal=true": {"features.orthogonal": True},
    },
    NFSIC: {
        "--estimator nfsic:placement=random": {"statistic": CHANGED},
        "--estimator nfsic:training_rows=64": {"statistic": CHANGED},
    },
    DCOV: {
        "--estimator dcov:exponent=0.5": {"variables.0.kernel": "distance:0.5"},
        "--estimator dcov:unbiased=true": {"estimate": CHANGED},
    },
    f"{DCOV} --null spectral": {
        "--null spectral:simulation,99": {"null_distribution.#": 99, "pvalue": CHANGED}
    },
    MAP: {
        "--of estimate": {"of": "estimate"},
        "--wrt x": {"features.#": 1},
        "--kernel y=gaussian:0.25": {"measured.variables.1.kernel": "gaussian:0.25"},
        "--estimator rff-hsic:31": {"measured.features.counts.0": 62},
    },
    RANK: {
        "--features z": {"features.0.name": "z"},
        "--target label": {"target": "label", "target_kernel": "delta"},
        "--column-group a=0:1 --column-group b=second,2": {"features.1.columns": [1, 2]},
        "--by cka": {"by": "cka"},
        "--kernel laplacian": {"features.0.kernel": "laplacian"},
        "--target-kernel imq": {"target_kernel": "imq"},
        "--estimator nystrom-hsic": {"estimator": "nystrom-hsic"},
        "--estimator nystrom-m:30,pairing=joint": {"landmarks.pairing": "joint"},
        "--null permutation": {"null": "permutation"},
        "--groups fives": {"null_reason": "whole groups"},
    },
    MATRIX: {
        "--kernel x=imq": {"variables.0.kernel": "imq:"},
        "--landmarks 30": {"landmarks.drawn": 30},
        "--null spectral": {"null": "spectral"},
        "--confidence 0.9": {"confidence": 0.9},
    },
    LAGS: {
        "--kernel y=laplacian": {"variables.1.kernel": "laplacian"},
        "--estimator nystrom-hsic": {"estimator": "nystrom-hsic"},
        "--resamples 30": {"step": CHANGED},
        "--order time:lag=10": {"step": 10},
    },
    TWO: {
        "--sample z": {"samples.#": 3},
        "--estimator rff-mmd:31,orthogonal=true": {"features.counts.0": 62},
        "--estimator nystrom-mmd:33": {"landmarks.drawn": 33},
    },
    "two-sample data.zarr --sample x --sample far": {
        "--kernel laplacian:2": {"variables.0.kernel": "laplacian:2.0"},
        "--kernel 'grid:factors=0.5|1|2,aggregate=min-p'": {"grid.combinations.#": 3},
        "--null normal --estimator block-mmd:block_rows=10": {"null_reason": "blocks of 10 rows"},
    },
    "two-sample data.zarr --sample x --between label": {"--between fives": {"samples.#": CHANGED}},
    THREE: {
        "--estimator v-lancaster": {"estimator": "v-lancaster"},
        "--estimator nystrom-lancaster:33": {"landmarks.drawn": 33},
    },
    GIVEN: {"--given label": {"given.#": 2}},
    "conditional data.zarr --variable x --variable y --given label": {
        "--method kernel": {"estimator": "kernel-residuals"}
    },
    DAGS: {
        "--variable z": {"names.#": 3},
        "--regression splines:n_knots=5": {"statistics.1": CHANGED},  # graph 0 has no edges
        "--regression random-forest:2": {"regression": "random-forest"},
        "--kernel laplacian": {"kernels.0": "laplacian"},
    },
    ORDER: {"--alpha 0.01": {"alpha": 0.01}},
    DIRECTION: {
        "--criterion hsic": {"criterion": "hsic"},
        "--estimator rff-hsic:31": {"estimator": "rff-hsic"},
        "--kernel laplacian": {"score": CHANGED},
        "--max-rows 90": {"n": 90},
    },
    RESIDUALS: {
        "--given y": {"given.#": 2},
        "--groups fives": {"null_reason": "whole groups of equally many rows"},
        "--order time:lag=5": {"null_reason": "asymptotic: right for long series"},
        "--estimator nystrom-m:30": {"landmarks.drawn": 30},
        "--resamples 2000": {"null_distribution.#": CHANGED},
    },
    PAIRS: {
        "--max-rows 80": {"results.0.n": 80},
        "--criterion sensitivity": {"results.0.criterion": "sensitivity"},
    },
}
REPEATED = {"--variable", "--sample", "--given", "--strata", "--groups", "--column-group", "--wrt"}


def given_again(base, more):
    """A line with other options, in the place of those that may stand once."""
    words = shlex.split(base)
    for option in {*shlex.split(more)} - REPEATED:
        if option in words and option[:2] == "--":
            del words[(at := words.index(option)) : at + 2]
    return f"{shlex.join(words)} {more}"


CASES = [(base, more) for base, cases in OPTIONS.items() for more in cases]
_BASES = {}


def field(result, path):
    for step in path.split("."):
        if step == "#":
            result = len(result)
        elif isinstance(result, list):
            result = dict(enumerate(result)).get(int(step))
        else:
            result = result and result.get(step)
    return result


@pytest.mark.parametrize(("base", "more"), CASES, ids=[f"{b.split()[0]} {m}" for b, m in CASES])
def test_option__is_not_ignored(base, more, files, found):
    if base not in _BASES:
        _BASES[base] = found(base)
    result = found(given_again(base, more))
    for path, expected in OPTIONS[base][more].items():
        with_it, without_it = field(result, path), field(_BASES[base], path)
        assert with_it != without_it, path
        if isinstance(expected, str):
            assert re.search(expected, with_it), (path, with_it)
        elif expected is not CHANGED:
            assert with_it == expected, path


ELSEWHERE = {  # of all commands that run: where they run, what they write, the plan, chunks
    *("--allow-missing-chunks", "--plan", "--top", "--plot", "--out", "--alpha", "--exclude"),
    *("--threads", "--workers", "--scheduler", "--scheduler-file", "--cluster", "--tls-ca"),
    *("--tls-cert", "--tls-key", "--insecure", "--memory", "--json", "--checkpoint", "--time"),
    *("--log-json", "--report", "--performance-report", "--overwrite", "--control"),
}


def test_every_option__has_a_case():
    """Options of several commands are read by the same code."""
    told = {word for base, more in CASES for word in shlex.split(f"{base} {more}")}
    for name, command in COMMANDS.items():
        options = {option for one in command.params for option in one.opts if option[0] == "-"}
        assert options <= {*told, *ELSEWHERE, "--seed", "-h"}, name


OLD = {
    f"{TEST} --landmarks 64 --pairing=joint": "--estimator nystrom-m:n_landmarks=VALUE",
    f"{TEST} --estimator rff-hsic --orthogonal": "--estimator rff-hsic:orthogonal=VALUE",
    f"{TEST} --group-rows 50": "--null permutation:group_rows=VALUE",
    f"{TEST} --order time --lag 12": "--order time:lag=VALUE",
    f"{TEST} --kernel imq --factors 0.5,1": "--kernel grid:factors=VALUE",
    f"{DAGS} --knots 5": "--regression splines:n_knots=VALUE",
    f"{TWO} --landmarks 9": "--estimator nystrom-mmd:n_landmarks=VALUE",
    f"{TWO} --features 9": "--estimator rff-mmd:n_features=VALUE",
    f"{THREE} --landmarks 9": "--estimator nystrom-lancaster:n_landmarks=VALUE",
}


@pytest.mark.parametrize("line", OLD)
def test_old_option__is_told_with_its_text(line, files, invoke):
    done = invoke(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"it is a field of texts now: write as {OLD[line]} (see " in done.stderr


GONE = {
    f"{TEST} --knots 5": "No such option '--knots'",
    f"{RANK} --factors 0.5,1": "No such option '--factors'",
    f"{RANK} --group a=0": "'--group'; write --column-group NAME=COLUMNS",
    f"submit slurm --spec=c.yaml -- {TEST}": "'--cluster'; write --cluster FILE, whose kind says",
    f"cause conditional data.zarr {CAUSE}": "'conditional'; it is called dhsic cause residuals",
}


@pytest.mark.parametrize("line", GONE)
def test_removed_word__is_told_with_what_the_command_takes(line, files, invoke):
    done = invoke(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert GONE[line] in done.stderr
    assert "it is a field of texts now" not in done.stderr


PLANS = {
    "--threads 3": "3 threads of this process",
    "--workers 3": "3 workers with 3 threads in all",
    "--estimator nystrom-m:77": "77 before pruning",
    "--estimator nystrom-m --time 0.00001s": "64 before pruning",
    "--memory 1GiB": "allowed 1.0 GiB",
    "--null permutation": "permutation null",
    "--kernel gaussian --estimator nystrom-m --null spectral": "spectral null",
    "--weights weight": "weighted products",
}


@pytest.mark.parametrize("more", PLANS)
def test_plan__follows_the_options_and_writes_nothing(more, files, invoke):
    before = sorted(files.iterdir())
    line = f"plan data.zarr --variable x --variable y --threads 2 {more}"
    if "threads" in more or "workers" in more:
        line = line.replace("--threads 2 ", "")
    done = invoke(f"{line} --seed 3 --alpha 0.1 --checkpoint kept")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "300 of x, y" in done.stdout
    assert PLANS[more] in done.stdout
    assert PLANS[more] not in invoke("plan data.zarr --variable x --variable y --threads 2").stdout
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("line", [TEST, RANK, MATRIX, TWO, THREE, GIVEN, DIRECTION])
def test_plan_option__runs_nothing(line, files, invoke):
    done = invoke(f"{line} --plan")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "allowed" in done.stdout
    assert "p-value" not in done.stdout


@pytest.mark.parametrize("option", ["--json", "--report", "--plot", "--log-json"])
@pytest.mark.parametrize("line", [f"plan data.zarr {XY}", f"{TEST} --plan"])
def test_plan__has_nothing_to_write(option, line, files, invoke):
    done = invoke(f"{line} {option} out.png")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{option} needs a run, and a plan runs nothing: drop it" in done.stderr


def test_plan__of_what_does_not_fit_is_shown_and_refused(files, invoke):
    done = invoke("plan data.zarr --variable x --variable y --memory 2MiB")
    assert done.exit_code == 2
    assert "allowed 2.0 MiB" in done.stdout
    assert "more memory" in done.stderr


ABSENT = [
    "test lost.zarr --variable x --variable y --kernel gaussian",
    "rank lost.zarr --features x --target y",
    "two-sample lost.zarr --sample x --sample z --kernel gaussian",
    "conditional lost.zarr --variable x --variable y --given z",
    "cause direction lost.zarr --variable x --variable y",
    "cause residuals lost.zarr --variable x --variable y --given z --kernel gaussian",
]


@pytest.mark.parametrize("line", ABSENT)
def test_absent_chunks__are_read_where_that_is_allowed(line, files, invoke):
    refused = invoke(line)
    assert refused.exit_code == 2
    assert "lacks 1 stored chunk, of rows 100 to 199" in refused.stderr
    done = invoke(f"{line} --allow-missing-chunks")
    assert (done.exit_code, done.stderr) == (0, ""), done.output


def listings(page):
    """The command and the code of a report that give its result again."""
    found = re.findall(r"<pre[^>]*>(.*?)</pre>", page.read_text(), re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", text)) for text in found]


REPORTS = {
    f"{TEST} --seed 5 --strata label": "result",
    f"{QUICK} --estimator nystrom-m:30 --kernel y=laplacian": "result",
    f"{TEST} --estimator rff-hsic --kernel gaussian:0.5 --null gamma": "result",
    f"{TEST} --kernel 'grid:factors=0.5|1,combine=all' --groups fives --null shifts:99": "result",
    f"{TEST} --strata label --strata fives --kernel 'x=gaussian|imq'": "result",
    f"{TEST} --estimator dcov --null spectral --precision float32 --threads 1": "result",
    f"{TEST} --weights weight": "result",
    f"{MAP} --estimator rff-hsic:40 --of estimate --wrt x": "result",
    f"{MAP} --variable z --kernel y=imq:2 --precision float32 --missing drop": "result",
    f"{RANK} --by cka --kernel laplacian --target-kernel imq:2 --groups fives": "result",
    f"{RANK} --column-group a=0 --column-group all=0:3 --order time:lag=12": "result",
    f"{TWO} --estimator nystrom-mmd:40": "result",
    f"{THREE} --estimator nystrom-lancaster:30 --groups fives": "result",
    f"{GIVEN} --seed 2": "result",
    f"{MATRIX} --kernel z=imq": "result",
    f"{LAGS} --kernel y=imq --order time:lag=7": "result",
    f"{LAGS[:-1]}0:3": "result",
    f"{DAGS} --regression splines:n_knots=5": "result",
    "test lost.zarr --variable x --variable y --kernel gaussian --allow-missing-chunks": "result",
}


@pytest.mark.parametrize("line", REPORTS)
def test_report__has_code_and_a_command_that_give_its_result(line, files, found, invoke, tmp_path):
    page, kept = tmp_path / "page.html", tmp_path / "found.json"
    result = without_seconds(found(f"{line} --report {page}"))
    command, code = listings(page)
    again = {}
    exec(compile(code, "report", "exec"), again)
    assert without_seconds(json.loads(again[REPORTS[line]].to_json())) == result
    kept.unlink()
    page.unlink()
    assert invoke(command.removeprefix("dhsic ")).exit_code == 0
    assert without_seconds(json.loads(kept.read_text())) == result
    assert "of one process" in page.read_text()


REPORTED = [
    *(line for line in SAME if line not in (PAIRS, TEST, RANK)),
    *(QUICK, f"{RANK} --estimator nystrom-m:20", f"sensitivity data.zarr {CAUSE}"),
]


@pytest.mark.parametrize("line", REPORTED)
def test_report__is_written_by_every_command(line, files, invoke, tmp_path):
    done = invoke(f"{line} --report {tmp_path}/page.html --plot {tmp_path}/plot.svg")
    assert (done.exit_code, done.stderr) == (0, "")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "<svg" in (tmp_path / "plot.svg").read_text()


FILES = {
    f"{QUICK} --estimator nystrom-m:20": {"--report": "<!doctype html>", "--log-json": '"event"'},
    f"{RANK} --estimator nystrom-m:20": {
        "--report": "<!doctype html>",
        "--log-json": '"strongest": "first',
    },
    MATRIX: {"--plot": "<svg", "--log-json": '"null": "shifts"'},
    f"{LAGS} --estimator nystrom-hsic": {"--plot": "<svg", "--log-json": '"null": "shifts"'},
    MAP: {"--report": "<!doctype html>", "--log-json": '"of": "statistic"'},
    TWO: {"--report": "<!doctype html>", "--log-json": '"pvalue"'},
    THREE: {"--report": "<!doctype html>", "--log-json": '"pvalue"'},
    GIVEN: {"--report": "<!doctype html>", "--log-json": '"pvalue"'},
    f"{DAGS} --alpha 0.9": {
        "--report": "0 of 3 graphs are not rejected at level 0.9",
        "--log-json": '"graph": "cause -> effect"',
    },
    ORDER: {"--plot": "<svg", "--log-json": '"result"'},
    RESIDUALS: {"--plot": "<svg", "--log-json": '"pvalue"'},
    DIRECTION: {"--log-json": '"direction": "cause -> effect"'},
    PAIRS: {"--plot": "<svg", "--log-json": '"pairs": 4'},
}


@pytest.mark.parametrize("line", FILES)
def test_command__writes_its_files_and_goes_on_from_what_it_kept(
    line, files, found, invoke, tmp_path
):
    names = {"--plot": "plot.svg"}
    targets = {o: tmp_path / names.get(o, o.strip("-")) for o in FILES[line]}
    outputs = " ".join(f"{option} {path}" for option, path in targets.items())
    whole = f"{line} {outputs} --checkpoint {tmp_path / 'kept'}"
    first = found(whole)
    for option, words in FILES[line].items():
        assert words in targets[option].read_text()
    assert "of" in invoke(f"checkpoints list {tmp_path / 'kept'}").stdout
    assert without_seconds(found(whole)) == without_seconds(first) == without_seconds(found(line))
    events = [json.loads(one) for one in targets["--log-json"].read_text().splitlines()]
    latest = [one for one in events if one["run"] == events[-1]["run"]]
    resumed = [one["resumed"] for one in latest if one["event"] == "pass-started"]
    assert resumed
    assert min(resumed) > 0
    other = invoke(f"{line} --checkpoint {tmp_path / 'kept'} --seed 9")
    assert (other.exit_code, "another" in other.stderr) == (2, True) or "pairs" in line


def test_map__is_written_by_rows(files, invoke, tmp_path):
    out = tmp_path / "map.zarr"
    line = f"{MAP} --seed 3 --out {out}"
    assert invoke(line).exit_code == 0
    expected = dhsic.sensitivity_map("x", "y", **DATA)
    group = zarr.open_group(out, mode="r")
    for name in ("x", "y"):
        np.testing.assert_allclose(group[name][:], np.asarray(expected.maps[name]), rtol=1e-9)
    refused = invoke(f"{line} --log-json -")
    assert refused.exit_code == 2
    assert "pass-started" not in refused.stderr, "refused before the run"
    assert invoke(f"{line} --overwrite").exit_code == 0


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_pairs__are_written_by_rows(files, invoke, tmp_path):
    out = tmp_path / "pairs.zarr"
    line = f"{MATRIX} --null martingale --seed 3 --out {out}"
    done = invoke(line)
    assert done.exit_code == 0
    assert "of 3 pairs at level 0.05, by Benjamini and Hochberg" in done.stdout
    expected = dhsic.dependence_matrix("x", "y", "z", null="martingale", **DATA)
    written = zarr.open_group(out, mode="r")["p_value"][:, 0]
    np.testing.assert_array_equal(written, expected.pair_pvalues)
    refused = invoke(f"{line} --log-json -")
    assert refused.exit_code == 2
    assert "pass-started" not in refused.stderr, "refused before the run"
    assert invoke(f"{line} --overwrite").exit_code == 0


@pytest.mark.parametrize("line", [QUICK, RANK, MAP])
def test_files__that_cannot_be_written_lose_nothing_that_was_found(
    line, files, invoke, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    done = invoke(f"{line} --json {tmp_path / 'out.json'}")
    assert done.exit_code == 2
    assert "seed " in done.stdout
    assert done.stderr.endswith("out.json: No space left on device\n")
    assert not list(tmp_path.iterdir())


def test_pairs__without_weight_have_no_accuracy(files, invoke, tmp_path):
    for name in ("pair0001.txt", "pair0002.txt"):
        (tmp_path / name).write_text((files / "pairs" / name).read_text())
    line = f"cause pairs {tmp_path} --criterion hsic --max-rows 80"
    assert "right" not in invoke(line).stdout
    assert "directions are known" in invoke(f"{line} --plot {tmp_path}/right.png").stderr


AT = partial(ClusterSpec, "scheduler", scheduler=SchedulerAt("tls://h:1"))
CERTIFICATES = "--scheduler tls://h:1 --tls-ca /t/a --tls-cert /t/b --tls-key /t/c"
PLACES = {
    "--workers 2": ClusterSpec("local", 2),
    "--workers 2 --memory 1GiB": ClusterSpec("local", 2, memory=2**30),
    "--scheduler tls://h:1": AT(),
    "--scheduler-file /t/s": AT(scheduler=SchedulerAt(scheduler_file="/t/s")),
    "--scheduler tls://h:1 --insecure": AT(insecure=True),
    CERTIFICATES: AT(tls=TLS("/t/a", "/t/b", "/t/c")),
    "--scheduler tls://h:1 --tls-cert /t/b": AT(tls=TLS("/t/a", "/t/b", "/t/c")),
    "--cluster cluster.yaml": ClusterSpec("local", 2, threads=3, memory=2**30),
}


@pytest.mark.parametrize("more", PLACES)
def test_place__is_what_was_asked_for(more, files, invoke, monkeypatch):
    """The options become one description; clusters are started by tests in `tests/cluster`."""
    asked = []

    def record(spec):
        asked.append(spec)
        message = "recorded"
        raise DataError(message)

    monkeypatch.setattr("dhsic.cli.command.connect", record)
    (files / "cluster.yaml").write_text("kind: local\nworkers: 2\nthreads: 3\nmemory: 1GiB\n")
    if more.endswith("--tls-cert /t/b"):  # the others are those of the environment
        for name, value in {"CA": "/t/a", "CERT": "/elsewhere", "KEY": "/t/c"}.items():
            monkeypatch.setenv(f"DHSIC_TLS_{name}", value)
    assert invoke(f"{QUICK} {more}").stderr == "dhsic: error: recorded\n"
    assert asked == [PLACES[more]]
    assert invoke(f"{QUICK} --threads 1").exit_code == 0


@pytest.mark.nightly
@pytest.mark.parametrize("line", [QUICK, RANK, MAP, TWO, DAGS, DIRECTION])
def test_workers__find_what_threads_find(line, files, found, tmp_path):
    page, log = tmp_path / "page.html", tmp_path / "log"
    there = found(f"{line} --workers 1 --performance-report {page} --log-json {log}")
    here = found(line)
    assert "bokeh" in page.read_text().lower()
    assert '"workers-ready"' in log.read_text()
    paths = ("pvalue", "value", "features.0.pvalue", "score", "pvalues.0")
    expected = {path: field(here, path) for path in paths if field(here, path) is not None}
    assert expected
    for path, value in expected.items():
        assert field(there, path) == pytest.approx(value, rel=1e-9)


def test_help__names_commands_and_fits_a_terminal(invoke):
    assert len(invoke("test --help").stdout.splitlines()) <= 60
    assert "--kernel SPEC " in invoke("two-sample --help").stdout
    for line in ("", "--help", "-h"):
        done = invoke(line)
        assert (done.exit_code, done.stderr) == (0, "")
        assert all(f"\n  {name} " in done.stdout for name in main.commands)
    for name in (*main.commands, "convert table", "cause dags", "checkpoints list"):
        done = invoke(f"{name} --help")
        assert f"Usage: dhsic {name}" in done.stdout
        assert max(map(len, done.stdout.partition("Examples")[0].splitlines())) <= 80
    assert invoke("--version").stdout == f"dhsic {dhsic.__version__}\n"
    assert invoke("convert").exit_code == 2


@pytest.mark.parametrize("debug", ["", "--debug"])
def test_fault__is_a_line(debug, files, invoke, monkeypatch):
    def broken(*_, **__):
        logging.getLogger("distributed").error("noise")
        message = "first\nof s3://me:secret@bucket/x"
        raise RuntimeError(message)

    monkeypatch.setattr("dhsic.independence_test", broken)
    done = invoke(f"{TEST} {debug}")
    assert (done.exit_code, done.stdout) == (1, "")
    told = "dhsic: internal error: RuntimeError: first of s3://***@bucket/x; run with --debug"
    assert done.stderr.splitlines()[-1] == f"{told} for the traceback"
    assert ("Traceback" in done.stderr) == bool(debug) == (done.stderr.count("\n") > 1)


def test_warning__is_a_line_and_a_bar_is_drawn_on_a_terminal(files, invoke, monkeypatch):
    alike = "cause direction lost.zarr --variable 'x[:, 0]' --variable y --allow-missing-chunks"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = invoke(alike)
    assert done.stderr.startswith("dhsic: warning: rows that are stored side by side are alike")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    assert "\x1b[" in invoke(QUICK).stderr
    assert "\x1b" not in invoke(f"{QUICK} --log-json -").stderr


def test_table__is_taken_as_people_have_it(files, invoke):
    """A column without a name, blanks in a name, dates, names of rows, prices."""
    done = invoke("rank people.csv --target y --exclude z")
    assert done.exit_code == 0
    assert "features   1," in done.stdout
    assert "found      1 of 1 at level 0.05 by bh:  pay " in done.stdout
    for left in ("'' has no name", "'day' is of type date32", "'id' has another label", "'price'"):
        assert left in done.stderr
    pairs = invoke("matrix people.csv --exclude z").stdout
    assert " pay   y " in pairs
    assert "1 of 1 pair" in pairs


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rank table.csv --target a --exclude bb", "needs column 'bb', which is not in"),
        ("matrix table.csv --exclude bb", "needs column 'bb', which is not in"),
        ("rank table.csv --target a --features b --exclude c", "and --features names some"),
        (f"{MATRIX} --exclude z", "and --variable names some"),
    ],
)
def test_exclude__is_not_ignored(line, words, files, invoke):
    done = invoke(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_resamples__beside_a_null_with_fields_are_refused(files, invoke):
    done = invoke(f"{QUICK} --estimator block-hsic --null normal:direct")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "n_resamples must be left out where null is a value" in done.stderr


def test_methods__are_listed_with_their_fields(invoke):
    listed = invoke("methods").stdout
    assert all(name in listed for name in ("nystrom-m ", "permutation  n_resamples=250", "rq "))
    told = invoke("methods nystrom-m").stdout
    assert told.startswith("nystrom-m, estimator: ")
    assert "n_landmarks  8sqrt" in told
    known = [one for argument in METHODS for one in known_methods(argument)]
    for name in (*known, *FORMS, "grid"):
        assert re.search(rf"\b{name}\b", listed), name
        told = invoke(f"methods {name}").stdout
        assert not re.search(r"\[\d\]|\.\.$|^  origin ", told, re.M), told
    assert "within       auto|all|groups  " in invoke("methods permutation").stdout
    assert "of 'dhsic two-sample': it has the fields of v-hsic" in invoke("methods v-mmd").stdout
    assert "nu=0.5\n  length " in invoke("methods matern12").stdout
    assert "combine          auto|all|matched  " in invoke("methods grid").stdout
    assert "did you mean 'gaussian'" in invoke("methods gausian").stderr


def test_completion__knows_names_and_fields(invoke):
    for begun, found in {
        "nystrom-h": "nystrom-hsic",
        "nystrom-m:9,pa": "nystrom-m:9,pairing=",
    }.items():
        words = {"COMP_WORDS": f"dhsic test d --estimator {begun}", "COMP_CWORD": "4"}
        done = invoke("", env={"_DHSIC_COMPLETE": "bash_complete", **words}, prog_name="dhsic")
        assert f"plain,{found}\n" in done.stdout


def test_process__is_left_as_it_was(invoke):
    before = signal.getsignal(signal.SIGTERM), logging.root.manager.disable
    assert invoke("--version").exit_code == 0
    assert (signal.getsignal(signal.SIGTERM), logging.root.manager.disable) == before
    assert signal.set_wakeup_fd(-1) == -1
