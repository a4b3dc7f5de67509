"""Kernel independence tests on data that does not fit one machine."""

__version__ = "0.1.0"
__all__ = ["__version__"]
