"""The one statistic, and its null by permutations: sums of products of functions of rows.

`groups` and `sets` say which rows change places, `orbit` the permutations. Sums under all of them
are of three kinds: `outer` of features of two variables, `pointwise` of the values of kernels at
landmark tuples, and `gram` of all pairs of rows.
"""
