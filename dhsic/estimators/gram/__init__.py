"""Statistics from all pairs of rows: HSIC, distance covariance and correlation."""
