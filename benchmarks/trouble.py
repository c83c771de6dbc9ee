"""What goes wrong in a measurement, said in words that name the remedy."""

from __future__ import annotations


class BenchmarkError(Exception):
    """A figure that could not be taken, or would have been wrong."""
