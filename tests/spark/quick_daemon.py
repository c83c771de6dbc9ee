"""The process from which Spark forks its Python workers, made for thousands of tasks that do next to nothing.

Otherwise it is PySpark's own daemon, with three differences. At the start of every task a worker forgets what it knew
of its import path, and would read the list of the classes in Spark's jar again (thirty milliseconds); the jar is not
on the path here. At the end of every task it collects garbage, and would look at every object of every module (ten
milliseconds); here at the young ones. And workers find what they need imported, which takes half a second each.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from importlib import import_module
from types import SimpleNamespace


def forget_jars() -> None:
    """Take the jars off the import path, and what was remembered of them."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry in [entry for entry in sys.path_importer_cache if ".jar" in entry]:
        del sys.path_importer_cache[entry]


def import_ahead() -> None:
    """Import what every worker would import for itself, as far as it is installed."""
    source = "rocketpy.spark.source"
    for name in ("pyarrow", f"{source}.messages", f"{source}.reading", f"{source}.spark_classes"):
        with contextlib.suppress(ImportError):
            import_module(name)


if __name__ == "__main__":
    import pyspark.daemon

    forget_jars()
    import_ahead()
    pyspark.daemon.gc = SimpleNamespace(collect=lambda: gc.collect(1))
    pyspark.daemon.manager()
