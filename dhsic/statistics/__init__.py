"""The one statistic, and its null by permutations: sums of products of functions of rows.

`orbit` says which rows change places, and makes the statistics of the data and of all permutations.
Their sums are of three kinds: `outer` of features of two variables, `pointwise` of the values of
kernels at landmark tuples, and `gram` of all pairs of rows. `martingale` compares every row with
those before it, `jackknife` makes intervals of measures, and `neighbours` tells whether rows are
exchangeable draws.
"""
