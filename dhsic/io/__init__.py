"""Data in: variables wherever they are, and converters to zarr."""
