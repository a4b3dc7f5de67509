"""Naive definitions: loops and dense matrices, written from the equations and nothing else."""

import itertools
import math
from functools import cache

import numpy as np


def gaussian_gram(x, y, gamma):
    return np.array([[math.exp(-gamma * float(np.sum((a - b) ** 2))) for b in y] for a in x])


def v_hsic(grams):
    """Kalinke and Szabo (2023), equation 5."""
    n, m = len(grams[0]), len(grams)
    ones = np.ones(n)
    joint = np.prod(grams, axis=0)
    first = ones @ joint @ ones / n**2
    second = np.prod([ones @ k @ ones for k in grams]) / n ** (2 * m)
    third = 2.0 / n ** (m + 1) * (ones @ np.prod([k @ ones for k in grams], axis=0))
    return float(first + second - third)


def gram_with_gaps(gram, x, z, present):
    """Inner products of rows and others; a missing one has the mean feature of those present."""
    points = np.concatenate([x, z, present])
    there = ~np.isnan(points).any(axis=1)
    # Every row as weights of the points, so that its feature is a sum of theirs.
    weights = np.where(there[:, None], np.eye(len(points)), 0.0)
    weights[np.ix_(~there, np.arange(len(points)) >= len(x) + len(z))] = 1.0 / len(present)
    points = np.where(there[:, None], points, present[0])
    whole = weights @ gram(points, points) @ weights.T
    return whole[: len(x), len(x) : len(x) + len(z)]


def nystrom_m_hsic(grams, crosses):
    """Kalinke and Szabo (2023), Lemma 4.2, from K_m (p, p) and K_m,n'n (p, n), with (16), (17)."""
    n = crosses[0].shape[1]
    ones = np.ones(n)
    gram_joint, cross_joint = np.prod(grams, axis=0), np.prod(crosses, axis=0)
    alphas = [np.linalg.pinv(k) @ c @ ones / n for k, c in zip(grams, crosses, strict=True)]
    alpha = np.linalg.pinv(gram_joint) @ cross_joint @ ones / n
    first = alpha @ gram_joint @ alpha
    second = np.prod([a @ k @ a for a, k in zip(alphas, grams, strict=True)])
    third = 2.0 * alpha @ np.prod([k @ a for a, k in zip(alphas, grams, strict=True)], axis=0)
    return float(first + second - third)


def nystrom_statistic(gram_joint, crosses):
    """T = n u' K_J^- u, u the mean of the product less the product of the means."""
    n = crosses[0].shape[1]
    u = np.prod(crosses, axis=0).mean(axis=1) - np.prod([c.mean(axis=1) for c in crosses], axis=0)
    return float(n * u @ np.linalg.pinv(gram_joint) @ u)


def u_hsic(first, second):
    """Gretton (2020), section 4.2.3: means over pairs, triples and quadruples of distinct rows."""
    n = len(first)
    pairs = [first[i, j] * second[i, j] for i, j in itertools.permutations(range(n), 2)]
    triples = [first[i, j] * second[i, q] for i, j, q in itertools.permutations(range(n), 3)]
    quadruples = [first[i, j] * second[q, r] for i, j, q, r in itertools.permutations(range(n), 4)]
    return float(np.mean(pairs) + np.mean(quadruples) - 2.0 * np.mean(triples))


def distance_matrix(x, exponent):
    return np.array([[float(np.sqrt(np.sum((a - b) ** 2))) ** exponent for b in x] for a in x])


def distance_covariance(x, y, exponent):
    """Szekely, Rizzo and Bakirov (2007): mean product of doubly centred distances."""
    n = len(x)
    h = np.eye(n) - 1.0 / n
    a, b = (h @ distance_matrix(z, exponent) @ h for z in (x, y))
    return float(np.mean(a * b))


def distance_correlation(x, y, exponent):
    """Szekely, Rizzo and Bakirov (2007), definition 5: not squared; 0 where a variance is 0."""
    covariances = [distance_covariance(*pair, exponent) for pair in ((x, y), (x, x), (y, y))]
    covariance, first, second = (float(np.sqrt(max(one, 0.0))) for one in covariances)
    scale = float(np.sqrt(first * second))
    return covariance / scale if scale > 0.0 else 0.0


def u_distance_covariance(x, y, exponent):
    """Szekely and Rizzo (2014): inner product of U-centred distances over n (n - 3)."""
    n = len(x)
    a, b = (u_centred(distance_matrix(z, exponent)) for z in (x, y))
    return float((a * b).sum() / (n * (n - 3)))


def u_centred(matrix):
    """Szekely and Rizzo (2014), definition 2."""
    n = len(matrix)
    d = matrix - np.diag(np.diag(matrix))
    rows = d.sum(axis=1) / (n - 2)
    centred = d - rows[:, None] - rows[None, :] + d.sum() / ((n - 1) * (n - 2))
    return centred - np.diag(np.diag(centred))


def nystrom_spectrum(gram_joint, crosses):
    """Eigenvalues of K_J^- Cov(xi), with the covariance over rows divided by n - 2."""
    n, m = crosses[0].shape[1], len(crosses)
    means = [c.mean(axis=1) for c in crosses]
    rows = []
    for i in range(n):
        xi = np.prod([c[:, i] for c in crosses], axis=0)
        for k in range(m):
            xi = xi - crosses[k][:, i] * np.prod([means[j] for j in range(m) if j != k], axis=0)
        rows.append(xi)
    covariance = np.cov(np.array(rows).T) * (n - 1) / (n - 2)
    return np.sort(np.linalg.eigvals(np.linalg.pinv(gram_joint) @ covariance).real)


def v_mmd(k_xx, k_yy, k_xy):
    """Squared MMD as |mu_x - mu_y|^2, from all pairs of rows."""
    n, m = k_xy.shape
    own = sum(k_xx[i, j] for i in range(n) for j in range(n)) / n**2
    other = sum(k_yy[i, j] for i in range(m) for j in range(m)) / m**2
    return float(own + other - 2.0 * k_xy.sum() / (n * m))


def u_mmd(k_xx, k_yy, k_xy):
    """Gretton et al. (2012), equation 3: without the pairs of a row with itself."""
    n, m = k_xy.shape
    own = sum(k_xx[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    other = sum(k_yy[i, j] for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return float(own + other - 2.0 * k_xy.sum() / (n * m))


def mean_mmd(measure, gram, labels):
    """Mean of a discrepancy over all pairs of samples, weighted by the products of their sizes."""
    total = weight = 0.0
    for a, b in itertools.combinations(np.unique(labels), 2):
        x, y = np.flatnonzero(labels == a), np.flatnonzero(labels == b)
        value = measure(gram[np.ix_(x, x)], gram[np.ix_(y, y)], gram[np.ix_(x, y)])
        total, weight = total + len(x) * len(y) * value, weight + len(x) * len(y)
    return total / weight


def projected_mmd(k_zz, k_zx, k_zy):
    """|P (mu_x - mu_y)|^2, P the projection on the span of landmarks z."""
    difference = k_zx.mean(axis=1) - k_zy.mean(axis=1)
    return float(difference @ np.linalg.pinv(k_zz) @ difference)


def embedding_weights(k_zz, k_zx):
    """Chatalic et al. (2022), equation 5: alpha = K_m^+ K_mn 1_n / n."""
    n = k_zx.shape[1]
    return np.linalg.pinv(k_zz) @ k_zx @ np.ones(n) / n


def nfsic_mean(crosses):
    """u of kernels at locations (n, J)."""
    return np.prod(crosses, axis=0).mean(axis=0) - np.prod(
        [c.mean(axis=0) for c in crosses], axis=0
    )


def nfsic_covariance(crosses):
    """Of sqrt(n) u under independence: a sum over all sets of two variables or more."""
    j, m = crosses[0].shape[1], len(crosses)
    total = np.zeros((j, j))
    for size in range(2, m + 1):
        for chosen in itertools.combinations(range(m), size):
            term = np.ones((j, j))
            for k, c in enumerate(crosses):
                mean = c.mean(axis=0)
                term = term * (np.cov(c.T, bias=True) if k in chosen else np.outer(mean, mean))
            total += term
    return total


def nfsic_statistic(crosses, regularisation):
    """n u'(S + r t I)^-1 u, t the mean of the diagonal of S."""
    u, s = nfsic_mean(crosses), nfsic_covariance(crosses)
    ridge = regularisation * np.trace(s) / len(s) * np.eye(len(s))
    return float(len(crosses[0]) * u @ np.linalg.inv(s + ridge) @ u)


def centred_gram(gram):
    h = np.eye(len(gram)) - 1.0 / len(gram)
    return h @ gram @ h


def cka(k_x, k_y):
    """Cortes et al. (2012): the cosine of the angle between centred Gram matrices."""
    a, b = centred_gram(k_x), centred_gram(k_y)
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))


def nocco(k_x, k_y, share):
    """Fukumizu et al. (2008): tr R_x R_y, R = G (G + n e I)^-1, e a share of |G| / n."""
    n, roots = len(k_x), []
    for gram in (k_x, k_y):
        g = centred_gram(gram)
        ridge = share * np.linalg.norm(g, 2)
        roots.append(g @ np.linalg.inv(g + ridge * np.eye(n)))
    return float(np.trace(roots[0] @ roots[1]))


@cache
def lancaster_weights(n, m=3):
    """The signed measure sum_S (-1)^(M - |S|) P_S (x)_(k not in S) P_k on n^M tuples of rows.

    Lancaster (1969); for M = 3 P_XYZ - P_XY P_Z - P_XZ P_Y - P_YZ P_X + 2 P_X P_Y P_Z.
    """
    rows = np.indices((n,) * m)
    weights = np.zeros((n,) * m)
    for size in range(m + 1):
        for chosen in itertools.combinations(range(m), size):
            together = np.ptp(rows[list(chosen)], axis=0) == 0 if chosen else True
            share = float(n) ** -(m - size + min(size, 1))
            weights += (-1.0) ** (m - size) * share * together
    return weights


def v_lancaster(grams):
    """Sejdinovic, Gretton and Bergsma (2013): the squared norm of the measure's embedding."""
    weights = embedded = lancaster_weights(len(grams[0]), len(grams))
    for gram in grams:
        embedded = np.tensordot(embedded, gram, axes=(0, 0))
    return float((weights * embedded).sum())


def nystrom_lancaster(gram_joint, crosses):
    """T = n v' K_J^- v, v the values at landmarks of the measure's embedding."""
    n = crosses[0].shape[1]
    v = []
    for values in zip(*crosses, strict=True):
        embedded = lancaster_weights(n, len(crosses))
        for own in values:
            embedded = np.tensordot(embedded, own, axes=(0, 0))
        v.append(float(embedded))
    return float(n * np.array(v) @ np.linalg.pinv(gram_joint) @ v)


def penalised_fit(design, target, penalty, weight):
    """Coefficients, residuals, hat matrix and leave-one-out score of a centred regression."""
    n = len(design)
    rows = np.column_stack([np.ones(n), design])
    ridge = np.zeros((rows.shape[1],) * 2)
    ridge[1:, 1:] = weight * penalty
    hat = rows @ np.linalg.solve(rows.T @ rows + ridge, rows.T)
    left = target - hat @ target
    gcv = n * np.sum(left**2, axis=0) / (n - np.trace(hat)) ** 2
    return left, hat, gcv


def is_acyclic(parents):
    """Whether a power of the adjacency matrix vanishes."""
    m = len(parents)
    adjacency = np.zeros((m, m))
    for node, own in enumerate(parents):
        adjacency[list(own), node] = 1.0
    return not np.linalg.matrix_power(adjacency, m).any()


def ridge_in_dual(gram, targets, ridges, most, excess=0.0):
    """Hat matrices of kernel ridge regressions with a free constant, one a target, by GCV.

    Golub, Heath and Wahba (1979), section 1, among hat matrices of at most so large a trace: that
    of the first of the ascending ridges whose score exceeds the least by at most a share.
    """
    n = len(gram)
    centring = np.eye(n) - 1.0 / n
    centred = centring @ gram @ centring
    hats = [
        np.full((n, n), 1.0 / n) + centred @ np.linalg.inv(centred + n * ridge * np.eye(n))
        for ridge in ridges
    ]
    found = []
    for target in targets.T:
        scores = [
            n * np.sum((target - hat @ target) ** 2) / (n - np.trace(hat)) ** 2
            if np.trace(hat) <= most
            else np.inf
            for hat in hats
        ]
        taken = next(k for k, score in enumerate(scores) if score <= (1 + excess) * min(scores))
        found.append((hats[taken], scores[taken]))
    return found


def residual_products(x_fits, y_fits, x, y, weights):
    """The mean of products of residuals and weights, and their second moments for the null law."""
    n = len(x)
    sides = []
    for fits, features in ((x_fits, x), (y_fits, y)):
        left = [feature - hat @ feature for (hat, _), feature in zip(fits, features.T, strict=True)]
        lever = [np.maximum(1.0 - np.diag(hat), 0.1) ** 0.25 for hat, _ in fits]
        sides.append((np.array(left).T, np.array(left).T / np.array(lever).T))
    plain, scaled = (
        np.einsum("ia,ib,ic->iabc", sides[0][k], sides[1][k], weights).reshape(n, -1)
        for k in (0, 1)
    )
    return plain.mean(axis=0), scaled.T @ scaled / n


def partial_correlation(alone, both):
    """Huang, Deb and Sen (2022), by the errors of two regressions of y."""
    return max(0.0, 1.0 - sum(e for _, e in both) / sum(e for _, e in alone))


def weighted_terms(grams, weights):
    """Inner products of the terms w_i (phi_i - mu) (x) (psi_i - nu), weights of mean 1, (n, n)."""
    share = weights / weights.sum()
    centring = np.eye(len(share)) - np.outer(np.ones(len(share)), share)
    scaled = len(share) * share
    return np.outer(scaled, scaled) * np.prod([centring @ k @ centring.T for k in grams], axis=0)


def weighted_v_hsic(grams, weights):
    """V-HSIC of the measure that has the share w_i / sum w at row i."""
    return float(weighted_terms(grams, weights).mean())


def weighted_spectrum(grams, weights):
    """Eigenvalues of the second moment of the terms, over what is left of an error's variance."""
    share = weights / weights.sum()
    left = 1.0 - 2.0 * share + (share**2).sum()
    terms = weighted_terms(grams, weights) / np.sqrt(np.outer(left, left))
    return np.maximum(np.linalg.eigvalsh(terms / len(share)), 0.0)


def step_down(rows, tie=1e-12):
    """Westfall and Young (1993), algorithm 4.1, by loops; row 0 of the scores is the data."""
    count, order = len(rows), sorted(range(rows.shape[1]), key=lambda j: -rows[0, j])
    adjusted, before = np.empty(rows.shape[1]), 0.0
    for place, j in enumerate(order):
        left = order[place:]
        above = sum(max(row[i] for i in left) >= rows[0, j] - tie for row in rows)
        before = max(before, above / count)
        adjusted[j] = before
    return adjusted


def standardised(rows):
    """Distance of each row from the mean of the others in their standard deviations."""
    scores = np.empty_like(rows)
    for i in range(len(rows)):
        others = np.delete(rows, i, axis=0)
        scores[i] = (rows[i] - others.mean(axis=0)) / others.std(axis=0)
    return scores


def paper_equation_8(x, gram_x, gram_y, gamma):
    """Perez-Suay and Camps-Valls: S_ij with sigma^-2 = 2 gamma, row by row."""
    n, d = x.shape
    h = np.eye(n) - 1.0 / n
    centred = h @ gram_y @ h
    found = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            for k in range(n):
                found[i, j] += centred[i, k] * gram_x[i, k] * (x[i, j] - x[k, j])
    return -2.0 * (2.0 * gamma) / n**2 * found
