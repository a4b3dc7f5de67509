"""Fixtures that several folders share."""

import matplotlib as mpl
import numpy as np
import pytest
from distributed import Client, LocalCluster

mpl.use("Agg")


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
