"""The process from which Spark forks its Python workers, made for thousands of tasks that do next to nothing.

Otherwise it is PySpark's own daemon, with two differences. At the start of every task a worker forgets what it knew
of its import path, and would read the list of the classes in Spark's jar anew (thirty milliseconds); the jar is not
on the path here. At the end of every task it collects garbage, and would look at every object of every module (ten
milliseconds); here at the young ones.
"""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace


def forget_jars() -> None:
    """Take the jars off the import path, and what was remembered of them."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry in [entry for entry in sys.path_importer_cache if ".jar" in entry]:
        del sys.path_importer_cache[entry]


if __name__ == "__main__":
    import pyspark.daemon

    forget_jars()
    pyspark.daemon.gc = SimpleNamespace(collect=lambda: gc.collect(1))
    pyspark.daemon.manager()
