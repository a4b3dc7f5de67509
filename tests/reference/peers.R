# Values of the R packages dHSIC and energy, for tests/test_reference.py.
#
#   Rscript tests/reference/peers.R > tests/reference/peers.csv
#
# The data are fractions of multiples of roots, which `fractions` of tests/test_reference.py makes to
# the same bits: nothing is drawn, and nothing need be stored.

suppressPackageStartupMessages({
  library(dHSIC)
  library(energy)
})

fractions <- function(n, ...) {
  roots <- sqrt(c(...))
  outer(seq_len(n), roots) %% 1
}

say <- function(name, value) cat(sprintf("%s,%.17g\n", name, value))
fixed <- function(bandwidth, ...) {
  dhsic(list(...), kernel = "gaussian.fixed", bandwidth = bandwidth)$dHSIC
}
gamma <- function(bandwidth, ...) {
  dhsic.test(list(...), method = "gamma", kernel = "gaussian.fixed", bandwidth = bandwidth)
}

x <- fractions(40, 2, 3, 5)
y <- fractions(40, 7, 11) + x[, 1:2] / 2
z <- fractions(40, 13) + x[, 1]^2
w <- fractions(40, 17) - y[, 2]
levels <- floor(3 * fractions(40, 19, 23))

cat(sprintf("# R %s, dHSIC %s, energy %s\n", getRversion(), packageVersion("dHSIC"), packageVersion("energy")))
cat("name,value\n")
say("dhsic of two", fixed(0.5, x, y))
say("dhsic of three", fixed(0.7, x, y, z))
say("dhsic of four", fixed(0.8, x, y, z, w))
medians <- dhsic(list(z, w))
say("dhsic of two with medians", medians$dHSIC)
say("bandwidth of the first", medians$bandwidth[1])
say("bandwidth of the second", medians$bandwidth[2])
say("dhsic of levels", dhsic(list(levels[, 1], levels[, 2]), kernel = "discrete")$dHSIC)
say("dhsic of levels and numbers", dhsic(list(levels[, 1], z), kernel = c("discrete", "gaussian"))$dHSIC)
say("gamma statistic of two", gamma(0.5, x, y)$statistic)
say("gamma p-value of two", gamma(0.5, x[, 3], w)$p.value)
say("gamma p-value of three", gamma(0.7, x[, 3], levels[, 1], w)$p.value)
say("dcov", dcov(x, y))
say("dcov of exponent 1.5", dcov(x, y, 1.5))
say("dcor", dcor(x, y))
say("dcov of columns", dcov(z, w))
say("dcor of columns", dcor(z, w))
say("dcor of levels", dcor(levels[, 1], levels[, 2]))
say("bcdcor", bcdcor(x, y))
say("dcovU", dcovU(x, y))
say("energy of two samples", eqdist.e(rbind(x[1:15, 1:2], y[1:25, ]), c(15, 25)))
