"""Whether Spark Connect can be tried here: its server comes with PySpark 4, its client needs more than PySpark."""

from __future__ import annotations

import importlib.util
from pathlib import Path

MODULES = ("grpc", "grpc_status", "pandas", "pyarrow")


def server_comes_along() -> bool:
    """Whether the PySpark that is imported has a server of Connect in it; that of 3.5 is a download of its own."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    return any((Path(spec.origin).parent / "jars").glob("spark-connect_*.jar"))


def missing_for_connect() -> str | None:
    """What the client needs and is not here, or None."""
    lacking = [name for name in MODULES if importlib.util.find_spec(name) is None]
    return f"Spark Connect needs {', '.join(lacking)}: pip install 'pyspark[connect]'" if lacking else None
