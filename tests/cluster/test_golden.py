"""Results on the workers of a cluster are those that are kept of arrays in one process."""

import pytest

from tests.reference.golden import CELLS
from tests.test_golden import check, stored

ON_WORKERS = [
    *("v-hsic, shifts and cosets", "v-hsic of three, permutation", "dcov, shifts"),
    *("nystrom-hsic, shifts, float32", "rff-hsic, complex, permutation", "nocco, shifts"),
    *("nystrom-m of four, permutation", "nfsic of three, shifts", "grid, max, nystrom-m"),
    *("ranking, nystrom hsic", "default of three"),
]


@pytest.mark.parametrize("name", ON_WORKERS)
def test_golden__results_of_a_cluster_are_those_that_are_kept(name, tmp_path, client):
    check(CELLS[name], *stored(CELLS[name], tmp_path), client=client)
