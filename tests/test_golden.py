"""Results of many calls are those that are kept, from arrays and from stored ones.

`tests/reference/golden.py` has the cells, and writes the file anew where a change is meant.
"""

import warnings

import numpy as np
import pytest
import zarr

import dhsic
from tests.reference.golden import CELLS, DEFAULTS, differences, main, read, tolerance, write

KEPT = read()
STORED = [
    *("v-hsic, shifts", "u-hsic, permutation, ties", "v-hsic of four, permutation"),
    *("nystrom-hsic, shifts", "nystrom-hsic, permutation within groups", "rff-hsic, shifts"),
    *("nystrom-m of three, permutation", "nystrom-m, float32", "cka, shifts"),
    *("grid, max, v-hsic", "grid, soft, nystrom-hsic", "chain, Fisher, nystrom-m"),
    *("nfsic, chi-square", "block-hsic, direct", "estimate, nystrom-m, Lemma 4.2"),
    *("two samples, nystrom", "mean embeddings", "matrix, shifts"),
    *("interaction, nystrom-lancaster", "default of two"),
]


def stored(cell, folder):
    """The variables of a cell in zarr arrays, in chunks that differ between them."""
    paths = []
    for m, x in enumerate(cell.variables):
        paths.append(str(folder / f"{m}.zarr"))
        zarr.create_array(paths[-1], data=x, chunks=(31 + 10 * m, x.shape[1]))
    return paths


def check(cell, *variables, **place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dhsic.ApproximateNullWarning)
        found = cell.compute(*variables, **place)
    assert differences(found, KEPT[cell.name]) <= tolerance(cell)


def test_golden__keeps_every_cell_and_no_other():
    assert sorted(KEPT) == sorted(CELLS)
    assert {cell.name for cell in DEFAULTS} == {name for name in KEPT if "default" in name}


@pytest.mark.parametrize("name", CELLS)
def test_golden__results_are_those_that_are_kept(name):
    check(CELLS[name])


@pytest.mark.parametrize("name", STORED)
def test_golden__results_of_stored_arrays_are_those_that_are_kept(name, tmp_path):
    check(CELLS[name], *stored(CELLS[name], tmp_path))


@pytest.mark.parametrize("name", ["statistic", "pvalue", "estimate"])
def test_golden__values_that_are_missing_or_of_another_shape_differ(name):
    kept = KEPT["v-hsic, shifts"]
    for found in (kept | {name: np.array([np.nan])}, kept | {name: kept["replicates"][:2]}):
        assert not differences(found, kept) <= 1e300
    assert differences(kept, kept) == 0.0


def test_golden__script_tells_of_a_cell_that_differs(tmp_path, monkeypatch, capsys):
    fields = KEPT["v-hsic, shifts"]
    write(
        {"v-hsic, shifts": fields | {"estimate": 1.0001 * fields["estimate"]}}, tmp_path / "x.npz"
    )
    monkeypatch.setattr("tests.reference.golden.CELLS", {"v-hsic, shifts": CELLS["v-hsic, shifts"]})
    monkeypatch.setattr("tests.reference.golden.FILE", tmp_path / "x.npz")
    before = (tmp_path / "x.npz").read_bytes()
    assert main([]) == 1
    assert "v-hsic, shifts: 1.0e-04" in capsys.readouterr().out
    assert (tmp_path / "x.npz").read_bytes() == before
    assert main(["--write"]) == 0
    assert main([]) == 0
