"""The classes of Spark as the JVM has them once they are read and checked, in a file that every start of a Spark maps.

A Spark loads more than ten thousand classes before it does anything, which is half of the work of its start; many a
test starts one. An archive belongs to one class path, word for word, so all of them share a SPARK_HOME in the cache,
whose directory of settings is empty. A JVM for which the archive does not fit starts as ever.

`python -m tests.spark.class_archive` is the program out of which it is made.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.interop.cache import cache_directory, locked
from tests.interop.class_archive import OLDEST_JAVA
from tests.interop.toolchain import java_build, java_version, tool

__all__ = ["MAKING", "ROOT", "installed", "make_archive", "options_of_jvm", "shared_home"]

ROOT = Path(__file__).resolve().parent.parent.parent
MADE_WITHIN = 600.0
MAKING = "ROCKETPY_TEST_SPARK_ARCHIVE"
"""Names the file to a program that makes it."""
FITS_OR_NOT = "-Xlog:cds*=off"
"""A JVM that cannot use it goes on, and would say so among what its program says."""


def installed() -> Path:
    """Where the imported PySpark is."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def shared_home() -> Path | None:
    """The SPARK_HOME of all Sparks on one machine, for this PySpark and this Java; None where there is no archive.

    On the older line of PySpark fewer tests start one than would pay for it.
    """
    java = tool("java")
    if java is None or java_version(java) < OLDEST_JAVA or version("pyspark").startswith("3."):
        return None
    digest = hashlib.sha256(java_build(java).encode() + os.fsencode(installed()))
    return cache_directory() / f"spark-{version('pyspark')}-{digest.hexdigest()[:12]}"


def options_of_jvm() -> str:
    """What maps the archive, or what makes it; nothing where there is none."""
    if wanted := os.environ.get(MAKING):
        return f"-XX:ArchiveClassesAtExit={wanted} {FITS_OR_NOT}"
    home = shared_home()
    archive = home and _archive_in(home)
    return f"-XX:SharedArchiveFile={archive} {FITS_OR_NOT}" if archive and archive.is_file() else ""


def _archive_in(home: Path) -> Path:
    return home / "classes.jsa"


def make_archive() -> None:
    """Make the home and the archive of this PySpark unless they are there: a Spark does a bit of everything for it."""
    home = shared_home()
    if home is None or _archive_in(home).is_file():
        return
    with locked(home.name):
        archive = _archive_in(home)
        if archive.is_file():
            return
        (home / "conf").mkdir(parents=True, exist_ok=True)
        for part in ("bin", "jars"):
            (home / part).unlink(missing_ok=True)
            (home / part).symlink_to(installed() / part)
        draft = home / "draft"
        command = [sys.executable, "-m", "tests.spark.class_archive"]
        try:
            subprocess.run(
                command, cwd=ROOT, env={**os.environ, MAKING: str(draft)}, capture_output=True,
                timeout=MADE_WITHIN, check=True,
            )  # fmt: skip
            draft.rename(archive)
        except (OSError, subprocess.SubprocessError):
            archive.touch()  # it is not asked again; a JVM passes over an empty file


def main() -> None:
    """Have a Spark load what tests need: frames, RDDs, files, and a stream."""
    import tempfile

    from tests.spark.local_spark import local_session

    with tempfile.TemporaryDirectory(prefix="rocketpy-spark-") as name:
        folder = Path(name)
        with local_session(folder / "spark", ends_within=MADE_WITHIN) as spark:
            frame = spark.createDataFrame([(number, f"{number}") for number in range(20)], ["number", "text"])
            frame.groupBy("text").count().orderBy("text").collect()
            frame.selectExpr("number", "struct(text) as inner").write.parquet(str(folder / "files"))
            spark.read.parquet(str(folder / "files")).rdd.map(str).collect()
            frame.foreachPartition(list)
            stream = spark.readStream.schema(frame.schema).parquet(str(folder / "files")).writeStream
            stream = stream.foreachBatch(lambda rows, _: rows.foreachPartition(list))
            stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
            stream.start().awaitTermination(MADE_WITHIN)


if __name__ == "__main__":
    main()
