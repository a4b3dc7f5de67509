"""Estimators beside naive oracles of their statistics, which tables of tests share."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

import dhsic
from tests import oracles
from tests.estimators.orbit import FEWEST, landmark_rows, normal_waves

SEED = 5
GAMMA = 3.0  # landmark Gram matrices are well conditioned, so that inverses have their digits
WIDE = 0.3
LANDMARKS = 12
WAVES = 8
SHARE = 0.05
DIMS = {2: (2, 3), 3: (2, 3, 2), 4: (3, 2, 2, 2)}


def draw(n, variables, seed=0):
    """Variables of several columns, of which the last depends on the first."""
    rng = np.random.default_rng([n, variables, seed])
    data = [rng.standard_normal((n, d)) for d in DIMS[variables]]
    data[-1][:, 0] += data[0][:, 0]
    return data


def gaussian(x, z, gamma=GAMMA):
    return np.exp(-gamma * cdist(x, z, "sqeuclidean"))


def permuted(gram, rows):
    return gram[np.ix_(rows, rows)]


def centred(features):
    return features - features.mean(axis=0)


def landmarks_of(data, count=LANDMARKS, pairing="independent", seed=SEED):
    rows = landmark_rows(seed, len(data[0]), count, len(data), pairing)
    return [x[r] for x, r in zip(data, rows, strict=True)]


# Every oracle takes the data, and returns the statistic as a function of the rows that meet.


def all_pairs(measure, data, gram=gaussian):
    """A measure of Gram matrices whose rows and columns are permuted, times n."""
    grams = [gram(x, x) for x in data]
    return lambda rows: (
        len(data[0]) * measure([permuted(k, r) for k, r in zip(grams, rows, strict=True)])
    )


def u_hsic(grams):
    """Of U-centred matrices, which is what the mean over distinct rows says."""
    n = len(grams[0])
    return np.sum(oracles.u_centred(grams[0]) * oracles.u_centred(grams[1])) / (n * (n - 3))


def u_cka(grams):
    """The cosine of the angle between U-centred matrices."""
    a, b = map(oracles.u_centred, grams)
    return np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b))


def columns_hsic(data):
    """The mean over all pairs of columns."""
    x, y = ([gaussian(part[:, [j]], part[:, [j]]) for j in range(part.shape[1])] for part in data)
    return lambda rows: (
        len(data[0]) * np.mean([oracles.v_hsic([a, permuted(b, rows[1])]) for a in x for b in y])
    )


def distance_covariance(exponent, unbiased, normalised, data):
    """n times the squared distance covariance, or correlation."""
    grams = [cdist(x, x) ** exponent for x in data]
    centre = oracles.u_centred if unbiased else oracles.centred_gram
    a, b = map(centre, grams)
    n = len(a)
    scale = 1.0 / (n - 3) if unbiased else 1.0 / n
    if normalised:
        scale = n / np.sqrt(np.sum(a * a) * np.sum(b * b))
    return lambda rows: scale * np.sum(a * permuted(b, rows[1]))


def nystrom_features(data):
    """Symmetric roots of the Gram matrices of landmarks; other roots have the same norms."""
    features = []
    for x, z in zip(data, landmarks_of(data), strict=True):
        values, vectors = np.linalg.eigh(gaussian(z, z))
        features.append(gaussian(x, z) @ (vectors / np.sqrt(values)))
    return features


def principal(count, data):
    """On the eigenvectors of their covariance; so few rows are all in the sample."""
    moved = map(centred, nystrom_features(data))
    return [f @ np.linalg.svd(f, full_matrices=False)[2][:count].T for f in moved]


def normalised(kind, data):
    """By the covariance of either variable's features, through its symmetric root."""
    found = []
    for f in map(centred, nystrom_features(data)):
        values, vectors = np.linalg.eigh(f.T @ f / len(f))
        scales = np.sqrt(values + SHARE * values[-1])
        cka = f / np.sum(values**2) ** 0.25
        found.append(cka if kind == "cka" else f @ (vectors / scales) @ vectors.T)
    return found


def waves(data):
    """exp(i w'x) of every variable, shapes (n, WAVES)."""
    shapes = [(WAVES, x.shape[1]) for x in data]
    drawn = [normal_waves(SEED, m, shape) for m, shape in enumerate(shapes)]
    return [np.exp(1j * np.sqrt(2 * WIDE) * x @ w.T) for x, w in zip(data, drawn, strict=True)]


def split_waves(data):
    return [np.hstack([f.real, f.imag]) / np.sqrt(WAVES) for f in waves(data)]


def whole_waves(data):
    return [f / np.sqrt(WAVES) for f in waves(data)]


def standardised(data):
    return [centred(x) / x.std(axis=0) / np.sqrt(x.shape[1]) for x in data]


def frobenius(cross):
    return float(np.sum(np.abs(cross) ** 2))


def spectral_norm(cross):
    return float(np.linalg.norm(cross, ord=2)) ** 2


def crossed(features_of, size, data):
    """n times the size of the cross-covariance of features."""
    n, (first, second) = len(data[0]), map(centred, features_of(data))
    return lambda rows: n * size(first.T @ second[rows[1]].conj() / n)


def tuples(pairing, data, gram=gaussian):
    """T = n u' K_J^- u at landmark tuples."""
    z = landmarks_of(data, pairing=pairing)
    joint = np.prod([gram(p, p) for p in z], axis=0)
    crosses = [gram(p, x) for p, x in zip(z, data, strict=True)]
    return lambda rows: oracles.nystrom_statistic(
        joint, [c[:, r] for c, r in zip(crosses, rows, strict=True)]
    )


def lemma_4_2(pairing, data):
    z = landmarks_of(data, pairing=pairing)
    crosses = [gaussian(p, x) for p, x in zip(z, data, strict=True)]
    return oracles.nystrom_m_hsic([gaussian(p, p) for p in z], crosses)


def locations(data):
    """NFSIC at five locations."""
    crosses = [gaussian(x, z) for x, z in zip(data, landmarks_of(data, 5), strict=True)]
    return lambda rows: oracles.nfsic_statistic(
        [c[r] for c, r in zip(crosses, rows, strict=True)], 1e-3
    )


class Case(NamedTuple):
    """An estimator whose choices are all fixed by value, and what it is by its definition."""

    estimator: Any
    statistic: Callable
    """From the data to a function of the rows that meet."""
    variables: int = 2
    kernels: Any = f"gaussian:{GAMMA}"
    estimate: Callable | None = None
    """From the data; the statistic over n where not given."""
    least: int = 1
    """Shifts that are taken at least."""
    single: float = 1e-4
    """What float32 may be wrong by, as a share."""

    def test(self, data, null, **options):
        given = {"kernels": self.kernels, "rng": SEED, **options}
        return dhsic.independence_test(*data, estimator=self.estimator, null=null, **given)


FEW = {"n_landmarks": LANDMARKS, "tolerance": 0.0}
RADIAL = f"gaussian:{WIDE}"


def pairs_of_rows(estimator, measure, variables=2, **given):
    return Case(estimator, partial(all_pairs, measure), variables, least=FEWEST, **given)


def distances(estimator, *given):
    return Case(estimator, partial(distance_covariance, *given), kernels=None, least=FEWEST)


def features(estimator, made, size=frobenius, **given):
    return Case(estimator, partial(crossed, made, size), **given)


def coco_of(data):
    rows = [np.arange(len(data[0]))] * 2
    return np.sqrt(crossed(nystrom_features, spectral_norm, data)(rows) / len(data[0]))


def at_tuples(variables, pairing="independent"):
    estimator = dhsic.NystromMHSIC(pairing=pairing, **FEW)
    given = {"estimate": partial(lemma_4_2, pairing), "variables": variables}
    return Case(estimator, partial(tuples, pairing), **given)


def at_locations(variables):
    estimator = dhsic.NFSIC(n_locations=5, placement="random", regularisation=1e-3)
    return Case(estimator, locations, variables, single=1e-3)


CASES = {
    "v-hsic": pairs_of_rows(dhsic.VHSIC(), oracles.v_hsic),
    "v-hsic of 3": pairs_of_rows(dhsic.VHSIC(), oracles.v_hsic, 3),
    "v-hsic of 4": pairs_of_rows(dhsic.VHSIC(), oracles.v_hsic, 4),
    "u-hsic": pairs_of_rows(dhsic.UHSIC(), u_hsic),
    "u-cka": pairs_of_rows(dhsic.UCKA(), u_cka),
    "sub-hsic": Case(dhsic.SubHSIC(), columns_hsic, least=FEWEST),
    "dcov": distances(dhsic.DCov(), 1.0, False, False),
    "dcov, unbiased": distances(dhsic.DCov(0.5, unbiased=True), 0.5, True, False),
    "dcor": distances(dhsic.DCor(1.7), 1.7, False, True),
    "dcor, unbiased": distances(dhsic.DCor(unbiased=True), 1.0, True, True),
    "nystrom-hsic": features(dhsic.NystromHSIC(**FEW), nystrom_features),
    "nystrom-hsic, principal": features(
        dhsic.NystromHSIC(n_features=3, **FEW),
        partial(principal, 3),
        single=1e-3,
    ),
    "cka": features(dhsic.CKA(**FEW), partial(normalised, "cka"), single=1e-3),
    "nocco": features(
        dhsic.NOCCO(regularisation=SHARE, **FEW), partial(normalised, "nocco"), single=1e-2
    ),
    "coco": features(dhsic.COCO(**FEW), nystrom_features, spectral_norm, estimate=coco_of),
    "rff-hsic": features(dhsic.RFFHSIC(WAVES), split_waves, kernels=RADIAL),
    "rff-hsic, complex": features(
        dhsic.RFFHSIC(WAVES, form="complex"), whole_waves, kernels=RADIAL
    ),
    "sub-corr": features(dhsic.SubCorr(), standardised, kernels=None),
    "nystrom-m": at_tuples(2),
    "nystrom-m of 3": at_tuples(3),
    "nystrom-m of 4": at_tuples(4),
    "nystrom-m of 3, joint": at_tuples(3, "joint"),
    "nfsic": at_locations(2),
    "nfsic of 3": at_locations(3),
    "nfsic of 4": at_locations(4),
}
