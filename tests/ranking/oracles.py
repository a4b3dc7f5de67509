"""Naive definitions of what a ranking and a selection compute."""

import numpy as np


def cka(gram, other):
    """Squared HSIC over the root of those with themselves, from centred Gram matrices."""
    n = len(gram)
    h = np.eye(n) - 1.0 / n
    a, b = h @ gram @ h, h @ other @ h
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


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
