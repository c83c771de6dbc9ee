"""One Spark in this process, as small and as quick to start tasks as it can be: the JVM, its session, and their end.

It works with whichever PySpark is imported, 3.5 or 4.x: nothing here knows the line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from examples.spark_demo.java import NoSparkError, check_java
from tests.spark.class_archive import MAKING, ROOT, furnish, make_archive, options_of_jvm, shared_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "spark.log"
LOGGED = "log4j2.properties"
JAVA_ENDS_WITHIN = 60.0

TASKS_AT_A_TIME = 8
"""More than there are cores: a task that does next to nothing waits forty milliseconds for what its worker is sent."""
MASTER = f"local[{TASKS_AT_A_TIME},4]"
"""Each task is tried up to four times; without the second number local Spark tries once."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Starts sooner and costs less; for JVMs that live for some seconds compiling well is no gain."""

SETTINGS = {
    "spark.app.name": "rocketpy tests",
    "spark.python.daemon.module": "tests.spark.quick_daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}

# Everything Spark has to say goes into a file: a task that fails on purpose would fill the screen.
LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def missing_for_spark() -> str | None:
    """Say what keeps Spark from running here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "no pyspark in this environment: `./dev spark` installs it and runs these tests"
    try:
        check_java()
    except NoSparkError as error:
        return str(error)
    return None


def make_home(home: Path, level: str = "warn") -> dict[str, str]:
    """Make `home` a SPARK_HOME of the imported PySpark, without the zipped copies of PySpark in it; its settings.

    At the start of every task a worker forgets what it knew of its import path, and would read those archives again:
    some twenty milliseconds each time. Without them PySpark comes from where it is installed.
    """
    (home / "conf").mkdir(parents=True)
    (home / "conf" / LOGGED).write_text(LOGGING.format(level=level, file=home / LOG), "utf-8")
    return furnish(home)


def quick_jvm() -> str:
    """The options of a JVM that lives for some seconds; its SPARK_HOME is the shared one, if there is one.

    The first one in a cache waits until the archive of classes is made.
    """
    if MAKING not in os.environ:
        make_archive()
    return f"{QUICK_JVM} {options_of_jvm()}"


def shared_jvm(home: Path) -> str:
    """The same for a JVM that is to write its log into `home`, not into the SPARK_HOME that it shares."""
    return f"{quick_jvm()} -Dlog4j2.configurationFile={home / 'conf' / LOGGED}"


def environment_of_programs() -> dict[str, str]:
    """What a program that starts a Spark of its own needs, to start it as quickly."""
    submit = f"--conf spark.ui.enabled=false --driver-java-options '{quick_jvm()}' pyspark-shell"
    home = shared_home()
    homes = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(home / "conf")} if home else {}
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": submit, **homes}


def environment(home: Path) -> dict[str, str]:
    """Return what the JVM and the workers need to know: this Python, this tree, that home."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(home / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


@contextlib.contextmanager
def local_session(
    home: Path,
    *,
    master: str = MASTER,
    settings: Mapping[str, str] | None = None,
    level: str = "warn",
    ends_within: float = JAVA_ENDS_WITHIN,
) -> Iterator[SparkSession]:
    """A session in a JVM of its own, both gone at the end.

    Args:
        home: A directory to make; Spark's log and its temporary files are in it.
        master: How many tasks at a time, and how often each may be tried; without the second number once.
        settings: Spark's own settings on top of `SETTINGS`.
        level: What goes into the log, of the driver and of executors.
        ends_within: Seconds after which the JVM is killed at the end.
    """
    of_home = make_home(home, level)
    shared = None if master.startswith("local-cluster") else shared_home()  # executors work in their SPARK_HOME
    with pytest_environment(environment(shared or home)):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master)
        own = {"spark.local.dir": home / "tmp", "spark.sql.warehouse.dir": home / "warehouse"}
        java = shared_jvm(home) if shared else quick_jvm()
        more = {**({} if shared else of_home), "spark.driver.extraJavaOptions": java, **(settings or {})}
        for key, value in (SETTINGS | own | more).items():
            builder = builder.config(key, str(value))
        handler = signal.getsignal(signal.SIGINT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of PySpark's start are not ours to mend
            session = builder.getOrCreate()
        signal.signal(signal.SIGINT, handler)  # Spark's own stays for good, and keeps trio from setting its own
        try:
            yield session
        finally:
            stop(session, ends_within)


@contextlib.contextmanager
def pytest_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and put back what was there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def stop(session: SparkSession, within: float) -> None:
    """End the session and its JVM, so that a next one starts afresh; the workers end with the JVM."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()  # the JVM waits for the end of this
    try:
        process.wait(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None
