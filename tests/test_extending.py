"""The guide to extensions is true: its code runs, in order; kernels of a user are looked at."""

import importlib.util
import re
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import zarr
from scipy.stats import binom

import dhsic
from dhsic.kernels import Columns, Gaussian, Kernel, Ranked, parse

GUIDE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
NAMES = ("periodic", "student", "pareto-tail", "ball")


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """The code of the guide as a module, and what it printed."""
    path = tmp_path_factory.mktemp("guide") / "guide_of_dhsic.py"
    path.write_text("\n\n".join(BLOCKS))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(StringIO()) as printed:
            spec.loader.exec_module(module)
        yield module, printed.getvalue().splitlines()
    finally:
        del sys.modules[path.stem]
        for name in NAMES:
            with suppress(dhsic.errors.InvalidArgumentError):
                dhsic.unregister(name)


def test_guide__prints_what_it_says(guide):
    _, printed = guide
    *gram, periodic, permutation, tail, ball, feature, samples = printed
    assert gram == ["[[1.    0.135 0.999]", " [0.135 1.    0.135]", " [0.999 0.135 1.   ]]"]
    assert periodic == "True periodic:24.0:1.0"
    assert permutation == "permutation 1.0e-03"
    assert float(tail.removeprefix("pareto-tail ")) < 1e-4
    assert float(ball.removeprefix("shifts ")) < 0.01
    assert float(feature) <= 0.01
    assert float(samples) <= 0.01


def test_guide__kernel_is_its_definition(guide):
    module, _ = guide
    x = np.random.default_rng(1).uniform(0, 50, (20, 2))
    kernel = module.Periodic(period=24.0, length=0.7).fit(x)
    apart = x[:, None] - x[None]
    expected = np.exp(-2 * (np.sin(np.pi * apart / 24) ** 2).sum(axis=2) / 0.7**2)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-9)
    assert parse("periodic:24:0.7") == module.Periodic(24.0, 0.7)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="parameters must be > 0"):
        parse("periodic:-1")


@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic", "rff-hsic", "coco", "dcov", "nfsic"])
def test_guide__null_stands_with_all_that_permute(guide, estimator):
    x, noise = np.random.default_rng(2).standard_normal((2, 120))
    of_both = [
        dhsic.independence_test(x, y, estimator=estimator, null="pareto-tail", rng=0).pvalue
        for y in (noise, x**2 + 0.1 * noise)
    ]
    assert of_both[0] > 0.01 > of_both[1]


def test_guide__null_holds_its_level(guide):
    module, _ = guide
    pvalues = []
    for seed in range(60):
        x, y = np.random.default_rng(seed).standard_normal((2, 40))
        options = {"estimator": "ball", "null": module.ParetoTail(99), "rng": seed, "threads": 1}
        pvalues.append(dhsic.independence_test(x, y, **options).pvalue)
    assert np.sum(np.array(pvalues) <= 0.1) <= binom.isf(0.001, 60, 0.1)


def test_guide__estimator_runs_on_workers_and_with_a_checkpoint(guide, client, tmp_path):
    folder = str(Path(guide[0].__file__).parent)
    client.run(lambda: sys.path.append(folder))
    x, y = np.random.default_rng(3).standard_normal((2, 60))
    kept = {"checkpoint": str(tmp_path / "run")}
    found = {
        dhsic.independence_test(x, y, estimator="ball", rng=0, **where).pvalue
        for where in ({}, {"client": client}, kept, kept)
    }
    assert len(found) == 1


def kernel_of(name, tile):
    """A kernel of a user by the function of its tiles."""

    @dataclass(frozen=True)
    class OfUser(Kernel):
        name: ClassVar[str]

        def fit(self, sample):
            return self

        def tile(self, rows, columns, out, work):
            out[...] = tile(rows, columns.T)

    OfUser.name = name
    return OfUser()


DISTANCE = kernel_of("distance-itself", lambda x, y: np.abs(x - y))
NEGATIVE = kernel_of("minus-distance", lambda x, y: -np.abs(x - y))
SIGMOID = kernel_of("sigmoid", lambda x, y: np.tanh(2.0 * x @ y - 1.0))
LATER = kernel_of("later", lambda x, y: x >= y)  # not symmetric
EXPONENTIAL = kernel_of("exponential", lambda x, y: np.exp(-np.abs(x - y)))


@pytest.mark.parametrize(
    "kernel",
    [
        *(DISTANCE, NEGATIVE, SIGMOID, LATER, Gaussian() + SIGMOID, Gaussian() * DISTANCE),
        *(Columns(SIGMOID), Ranked(DISTANCE, "ranks")),
    ],
    ids=lambda kernel: kernel.spec(),
)
def test_kernel__that_is_not_positive_definite_is_refused(kernel):
    x, y = np.random.default_rng(0).standard_normal((2, 60))
    for call in (
        lambda: dhsic.independence_test(x, y, kernels=kernel, rng=0),
        lambda: dhsic.independence_test(x, y, kernels=kernel, estimator="nystrom-m", rng=0),
        lambda: dhsic.hsic(x, y, kernels=kernel, rng=0),
        lambda: dhsic.rank_features(x[:, None], y, feature_kernels=kernel, rng=0),
        lambda: dhsic.dependence_matrix(x, y, kernels=kernel, rng=0),
    ):
        with pytest.raises(
            dhsic.errors.InvalidArgumentError, match="symmetric and positive definite"
        ):
            call()


def expanded(digits):
    """exp(-|x - y|^2 / 2) from products, which loses digits."""

    def tile(x, y):
        x, y = x.astype(digits), y.astype(digits)
        return np.exp(x @ y - ((x**2).sum(axis=1)[:, None] + (y**2).sum(axis=0)) / 2)

    return kernel_of("expanded", tile)


@pytest.mark.parametrize(
    ("kernel", "middle"),
    [
        (EXPONENTIAL, 0.0),
        (EXPONENTIAL * Gaussian(), 0.0),
        (Ranked(EXPONENTIAL, "scores"), 0.0),
        (expanded(np.float32), 0.0),
        (expanded(np.float64), 1e4),
    ],
)
def test_kernel__that_is_positive_definite_but_for_rounding_is_taken(kernel, middle):
    x, noise = np.random.default_rng(0).standard_normal((2, 200))
    kernels = [kernel, "gaussian"]
    found = dhsic.independence_test(middle + x, x + 0.5 * noise, kernels=kernels, rng=0)
    assert found.pvalue < 0.01


def test_guide__radial_kernel_is_fitted_scaled_ranked_read_and_stored_as_all(guide, tmp_path):
    module, _ = guide
    x, noise = np.random.default_rng(4).standard_normal((2, 150))
    y = x**2 + 0.3 * noise
    found = dhsic.independence_test(x, y, kernels="student", rng=0)
    fitted = module.Student().fit(x[:, None])
    assert parse(found.variables[0].kernel).gamma == fitted.gamma
    np.testing.assert_allclose(
        fitted(x[:2, None])[0, 1], (1 + fitted.gamma * np.ptp(x[:2]) ** 2) ** -2
    )
    grid = dhsic.Grid(dhsic.Candidates(("student", "ranks(student)"), factors=(0.5, 1, 2)))
    gaps = np.where(np.arange(150) % 10 == 0, np.nan, x)
    zarr.save(str(tmp_path / "x.zarr"), x[:, None])
    stored = dhsic.independence_test(str(tmp_path / "x.zarr"), y, kernels="student", rng=0)
    assert stored.pvalue == found.pvalue
    for data, options in ((x, {"kernels": grid}), (gaps, {"kernels": "student"})):
        test = dhsic.independence_test(data, y, missing="pairwise", rng=0, **options)
        assert test.pvalue < 0.01
