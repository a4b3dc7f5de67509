"""Statistics of cross-covariances of features: Nystrom HSIC, random Fourier features and others."""
