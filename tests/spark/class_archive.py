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

__all__ = ["MAKING", "ROOT", "furnish", "installed", "make_archive", "options_of_jvm", "shared_home"]

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


def furnish(home: Path) -> dict[str, str]:
    """Put programs and jars into a SPARK_HOME that is not shared; the settings with which the archive fits there.

    Executors work below their SPARK_HOME, so a cluster has one of its own. An archive still fits where its class path
    is the beginning of a longer one, and the home then needs no other jar than that of the launcher.
    """
    (home / "bin").symlink_to(installed() / "bin")
    jars, shared = installed() / "jars", shared_home()
    if shared is None:
        (home / "jars").symlink_to(jars)
        return {}
    (home / "jars").mkdir()
    (launcher,) = jars.glob("spark-launcher_*.jar")
    (home / "jars" / launcher.name).symlink_to(launcher)
    class_path = _class_path(shared)
    return {f"spark.{who}.extraClassPath": class_path for who in ("driver", "executor")}


def _class_path(home: Path) -> str:
    """The class path of a Spark in a home, as its launcher writes it."""
    first = [f"{path}" for path in (home / "jars").glob("slf4j-api-*.jar")]
    return os.pathsep.join([f"{home / 'conf'}{os.sep}", *first, f"{home / 'jars' / '*'}"])


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
