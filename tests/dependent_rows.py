"""Data whose rows are no exchangeable draws, under independence and with an effect."""

import numpy as np

import dhsic


def grouped(rng, n, size, share):
    """Rows of which groups of so many share a part of their variance."""
    own = rng.standard_normal(n)
    common = np.repeat(rng.standard_normal(-(-n // size)), size)[:n]
    return share**0.5 * common + (1.0 - share) ** 0.5 * own


def series(rng, n, memory):
    x = rng.standard_normal(n + 100)
    for i in range(1, len(x)):
        x[i] += memory * x[i - 1]
    return x[100:]


def strata_case(rng, effect=0.0):
    strata = rng.choice(4, 200, p=[0.5, 0.3, 0.15, 0.05])
    x = 2.0 * strata + (1 + strata) * rng.standard_normal(200)
    y = -1.5 * strata + rng.standard_normal(200) + effect * (x - 2.0 * strata)
    return (x, y), {"strata": strata}


def groups_case(rng, effect=0.0):
    groups = rng.permutation(np.repeat(np.arange(40), 8))
    order = np.argsort(np.argsort(groups, kind="stable"), kind="stable")
    x = grouped(rng, 320, 8, 0.8)[order]
    return (x, grouped(rng, 320, 8, 0.8)[order] + effect * x), {"groups": groups}


def unequal_case(rng, effect=0.0):
    groups = np.repeat(np.arange(60), [1, 2, 3, 4, 7, 3] * 10)
    common = 2.0 * rng.standard_normal((2, 60))[:, groups]
    x, y = common + rng.standard_normal((2, len(groups)))
    return (x, y + effect * x), {"groups": groups}


def time_case(rng, effect=0.0):
    x = series(rng, 400, 0.8)
    return (x, series(rng, 400, 0.8) + effect * x), {"order": dhsic.TimeOrder(lag=8)}


def season_case(rng, effect=0.0):
    wave = np.sin(2 * np.pi * np.arange(480) / 12)
    x = wave + series(rng, 480, 0.5)
    return (x, wave + series(rng, 480, 0.5) + effect * x), {
        "order": dhsic.TimeOrder(lag=12, period=12)
    }


def panel_case(rng, effect=0.0):
    x, y = (np.concatenate([series(rng, 150, 0.8) for _ in range(3)]) for _ in range(2))
    return (x, y + effect * x), {"order": "time", "groups": np.repeat([0, 1, 2], 150)}


def within(x, strata):
    """About the mean of every stratum, in its deviations; those of pairs of rows are shared."""
    x = x.copy()
    for s in np.unique(strata):
        x[strata == s] -= x[strata == s].mean(axis=0)
    sharing = np.where(np.bincount(strata) == 2, -1, np.arange(strata.max() + 1))[strata]
    for s in np.unique(sharing):
        x[sharing == s] /= x[sharing == s].std(axis=0)
    return x


CASES = [strata_case, groups_case, unequal_case, time_case, season_case, panel_case]
