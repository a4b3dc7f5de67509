"""Statistics at landmark tuples: Nystrom M-HSIC, and HSIC by shared frequencies."""
