"""The one statistic, and its null by permutations: sums of products of functions of rows.

`exchangeable` says which rows change places, `orbit` the permutations, and `replicate` makes the
statistics of the data and of all of them. Their sums are of three kinds: `outer` of features of two
variables, `pointwise` of the values of kernels at landmark tuples, and `gram` of all pairs of rows.
`features` makes features. `moments` and `gram_sums` have limit laws, `blocks` the part of HSIC that
features leave out, and `neighbours` tells whether rows are exchangeable draws.
"""
