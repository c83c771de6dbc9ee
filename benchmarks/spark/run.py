"""The run: in every round new servers, and each loop once over all rows, while memory and CPU are watched."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks import arrivals
from benchmarks.bars import OURS as NAME_OF_OURS
from benchmarks.frames import Wire
from benchmarks.measure import QUEUES
from benchmarks.processes import ROOT, Child, environment
from benchmarks.rounds import Results, rest
from benchmarks.servers import OURS, Site
from benchmarks.spark.input import TOPIC
from benchmarks.spark.plan import LOOPS, ROWS, SPARK_BARS, WATCHED
from benchmarks.spark.usage import BROKER, DRIVER, JVM, WORKERS, Sampler, cpu_by_role, growth
from benchmarks.store.run import Teller
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

READY_WITHIN = 300.0
LOOP_WITHIN = 900.0


def run(*, rounds: int, rows: int) -> Results:
    """Take every loop once a round; the first that fails ends the run, for the others would fare no better."""
    began = time.monotonic()
    results = Results(ROWS, (OURS,), {}, bars=SPARK_BARS)
    teller = Teller(rounds * len(LOOPS) + 1)
    teller.step(f"Spark starts and warms up over {rows:,} rows")
    try:
        with driver(rows) as spark:
            for number in range(1, rounds + 1):
                with OURS.run() as site:
                    _round(spark, site, rows, results, teller, number)
    except BenchmarkError as error:
        results.failures.append(str(error))
    teller.end()
    results.seconds = time.monotonic() - began
    return results


@contextmanager
def driver(rows: int, tree: Path = ROOT) -> Iterator[Child]:
    """The process with the Spark session, ready; it and all below it are gone afterwards.

    Args:
        rows: That each loop goes over.
        tree: Whose sink it is.

    Raises:
        BenchmarkError: Spark does not start here.
    """
    with session_process("benchmarks.spark.driver", str(rows), tree=tree) as child:
        yield child


@contextmanager
def session_process(*words: str, tree: Path = ROOT) -> Iterator[Child]:
    """A process with a Spark session, ready; it and all below it are gone afterwards.

    Args:
        words: Its module and arguments.
        tree: Whose packages it uses.

    Raises:
        BenchmarkError: Spark does not start here.
    """
    missing = unavailable()
    if missing is not None:
        raise BenchmarkError(missing)
    # What stands in the path may be another PySpark, and then is the one to measure.
    paths = [path for path in (os.environ.get("PYTHONPATH"), str(tree)) if path]
    found = {**environment(), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths)}
    child = Child("-m", *words, env={**found, "SPARK_LOCAL_IP": "127.0.0.1"}, tree=tree)
    try:
        if child.line(READY_WITHIN) != "ready":
            raise BenchmarkError("the process that runs Spark says something else than that it is ready")
        yield child
    finally:
        child.end()


def unavailable() -> str | None:
    """Why Spark does not run here; None where it does, as far as one can see without starting it."""
    if find_spec("pyspark") is None:
        return "there is no PySpark in this environment: pip install 'rocketpy[spark]'"
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return (
            "Spark needs Java, 17 or newer, and there is none on PATH (on Debian: apt-get install default-jre-headless)"
        )
    return None


def _round(spark: Child, site: Site, rows: int, results: Results, teller: Teller, number: int) -> None:
    site.create_topic(TOPIC, QUEUES)
    for loop in LOOPS:
        teller.step(loop)
        rest(site)
        results.add(f"spark-{loop}", NAME_OF_OURS, replace(take(spark, site, loop, rows), round=number))


def take(spark: Child, site: Site, loop: str, rows: int) -> Outcome:
    """One loop, whose messages all arrive.

    Raises:
        BenchmarkError: they do not.
    """
    before = stored(site, TOPIC)
    outcome = timed(spark, site, [loop, site.namesrv], rows)
    arrived, due = stored(site, TOPIC) - before, rows if loop.endswith("-sink") else 0
    if arrived != due:
        raise BenchmarkError(f"{loop}: {arrived:,} messages arrived instead of {due:,}: the figure says nothing")
    return outcome


def timed(spark: Child, site: Site, request: object, rows: int) -> Outcome:
    """One loop: rows a second, CPU for 100,000 rows by kind of process, and what memory did meanwhile.

    Args:
        spark: The process with Spark.
        site: The servers.
        request: That the process answers with the seconds that it took.
        rows: In the loop.
    """
    pids = spark.pid, site.broker_pid
    before = cpu_by_role(*pids)
    with Sampler(*pids) as memory:
        spark.tell(json.dumps(request))
        seconds = float(spark.line(LOOP_WITHIN))
    after = cpu_by_role(*pids)
    used = {role: (after[role] - before[role]) * 100_000 / rows for role in after}
    notes = {f"{JVM}_cpu": used.get(JVM, 0.0), f"{DRIVER}_cpu": used.get(DRIVER, 0.0)}
    for role in WATCHED:
        samples = memory.of(role)
        notes |= {f"{role}_MB": max(samples), f"{role}_growth_percent": growth(samples)}
    return Outcome(rows / seconds, rows, used.get(WORKERS, 0.0), used.get(BROKER, 0.0), notes)


def stored(site: Site, topic: str, queues: int = QUEUES) -> int:
    """How many messages a topic has had, in its first queues."""
    with Wire(site.broker) as wire:
        return arrivals.stored(wire, topic, queues)
