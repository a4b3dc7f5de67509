"""Sessions and naive definitions that the tests of estimators on features share."""

import weakref

import numpy as np

from dhsic.engine.events import PassStarted, StepStarted
from dhsic.engine.groups import Groups
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.estimators.resample import Orbit
from dhsic.io.open import open_variables
from tests import oracles

LARGE = 2**31


def session_on(data, seed=5, precision="float64", memory=LARGE, client=None):
    runtime = Runtime.here(2, memory) if client is None else Runtime.on(client, memory)
    return Session(open_variables(data), runtime, seed, precision)


def dependent(n, dims=(2, 3), seed=0):
    rng = np.random.default_rng([n, *dims, seed])
    x, y = (rng.standard_normal((n, d)) for d in dims)
    y[:, 0] += x[:, 0]
    return x, y


def holds_one_state(monkeypatch):
    """Passes fail where the largest sums of the one before are still held."""
    run, former = Session._run, []

    def watched(session, reduction, plan):
        assert all(sums() is None for sums in former)
        state = run(session, reduction, plan)
        arrays = [x for x in state if isinstance(x, np.ndarray)]
        former[:] = [weakref.ref(max(arrays, key=lambda x: x.nbytes))]
        return state

    monkeypatch.setattr(Session, "_run", watched)


def centred(features):
    return features - features.mean(axis=0)


def cross_covariance(first, second):
    """(1/n) sum_i (phi_1i - mu_1) (phi_2i - mu_2)', row by row."""
    total = np.zeros((first.shape[1], second.shape[1]), np.result_type(first, second))
    for a, b in zip(centred(first), centred(second), strict=True):
        total += np.outer(a, b.conj())
    return total / len(first)


def squared_norm(first, second):
    return float(np.sum(np.abs(cross_covariance(first, second)) ** 2))


def signed_statistics(first, second, signs, size):
    """n / (n - 2) times n size(U_b), U_b = (1/n) sum_i (w_ib - mean w_b) (phi - mu)(phi - mu)'."""
    n = len(first)
    a, b = centred(first), centred(second).conj()
    values = []
    for w in signs.T:
        u = sum((w[i] - w.mean()) * np.outer(a[i], b[i]) for i in range(n)) / n
        values.append(n / (n - 2) * n * size(u))
    return np.array(values)


def permuted_statistics(first, second, orders, size):
    n = len(first)
    return np.array([n * size(cross_covariance(first, second[order])) for order in orders])


def frobenius(cross):
    return float(np.sum(np.abs(cross) ** 2))


def orbit_of_permutations(n, null, seed=5):
    """The permutations of rows that a null draws, of all rows or within groups; first none."""
    whole = null.within != "groups" or n <= null.group_rows
    groups = Groups(n, n, seed) if whole else Groups(n, n // round(n / null.group_rows), seed)
    return Orbit(groups, null.n_resamples + 1, shifted=False)


def orders_of_permutations(n, null, seed=5):
    return oracles.orders_of_orbit(orbit_of_permutations(n, null, seed))[1:]


def steps_of(events):
    """Names of the steps that ran, in their order; work of a step on threads is part of it."""
    return [
        event.name
        for event in events
        if isinstance(event, StepStarted)
        or (isinstance(event, PassStarted) and event.unit != "resamples")
    ]
