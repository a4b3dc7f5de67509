"""Fixtures that several folders share."""

import os

import matplotlib as mpl
import numpy as np
import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from tests.cluster.slurm import slurm as slurm
from tests.cluster.slurm import slurm_daemons as slurm_daemons

mpl.use("Agg")

# The bits of a solve depend on the number of BLAS threads: one here, where NumPy may be imported
# already, and one in the processes that tests start and compare with.
threadpool_limits(1, user_api="blas")
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def start_cluster():
    return LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )


@pytest.fixture(scope="session")
def client():
    """Two worker processes of one thread each, for all tests that leave them alive."""
    with start_cluster() as cluster, Client(cluster, set_as_default=False) as shared:
        yield shared


@pytest.fixture
def rng():
    return np.random.default_rng(0)
