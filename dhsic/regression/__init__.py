"""Streamed regressions: designs of rows, one pass of sums, and what is solved from these."""
