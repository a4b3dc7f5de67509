"""The engine: reductions over row blocks, planned, run on Dask, combined in a fixed order."""
