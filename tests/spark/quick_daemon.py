"""The process from which Spark forks its Python workers, with Spark's jar taken off the import path.

At the start of every task a worker forgets what it knew of that path, and would read the list of the thousands of
classes in the jar anew: thirty milliseconds a task. Otherwise this is PySpark's own daemon.
"""

from __future__ import annotations

import sys


def forget_jars() -> None:
    """Take the jars off the import path, and what was remembered of them."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry in [entry for entry in sys.path_importer_cache if ".jar" in entry]:
        del sys.path_importer_cache[entry]


if __name__ == "__main__":
    from pyspark.daemon import manager

    forget_jars()
    manager()
