"""The run: a store is filled once; then every round reads from it, writes to new servers, and runs queries."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.bars import OURS as NAME_OF_OURS
from benchmarks.measure import QUEUES
from benchmarks.rounds import Results, rest
from benchmarks.servers import OURS, Site
from benchmarks.spark.input import TOPIC, VALUE
from benchmarks.spark.pipeline_plan import PIPELINE_BARS, ROWS, Extent
from benchmarks.spark.run import session_process, stored, timed
from benchmarks.spark.usage import BROKER, JVM, WORKERS, own_cpu, used_between
from benchmarks.store.run import Teller
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError
from rocketpy.sync import Message, Producer, PullConsumer

if TYPE_CHECKING:
    from benchmarks.processes import Child

READ_TOPIC = "BenchRead"
STREAM_TOPIC = "BenchStream"
STREAM_MESSAGES = 4_000
"""More than the micro-batches read that are measured."""
WARM_ROWS = 2_000
WITHIN = 900.0
STEPS, ON_ONE_CORE = 8, 2
"""How many there are in a round, and how many more with one core."""


def run(*, rounds: int, extent: Extent) -> Results:
    """Take every figure once a round; the first that fails ends the run, for the others would fare no better."""
    began = time.monotonic()
    results = Results(ROWS, (OURS,), {}, bars=PIPELINE_BARS)
    teller = Teller(3 + rounds * (STEPS + ON_ONE_CORE * extent.one_core))
    try:
        with ExitStack() as stack:
            teller.step("Spark starts")
            sessions = [stack.enter_context(session_process("benchmarks.spark.pipeline_driver", "2"))]
            if extent.one_core:
                sessions.append(stack.enter_context(session_process("benchmarks.spark.pipeline_driver", "1")))
            site = stack.enter_context(OURS.run())
            teller.step(f"{extent.rows:,} messages are stored")
            fill(site, extent.rows)
            teller.step("they are counted")
            measuring = Measuring(sessions, site, extent, results, teller)
            measuring.warm_up()
            for number in range(1, rounds + 1):
                measuring.take(number)
    except BenchmarkError as error:
        results.failures.append(str(error))
    teller.end()
    results.seconds = time.monotonic() - began
    return results


def fill(site: Site, rows: int) -> None:
    """Make the topics, and store the messages in frames of many."""
    with Producer("bench-spark", namesrv=site.namesrv) as producer:
        for topic, count in ((READ_TOPIC, rows), (STREAM_TOPIC, STREAM_MESSAGES)):
            site.create_topic(topic, QUEUES)
            properties = {"source": "bench"}
            producer.send_many(
                Message(topic, VALUE, keys=f"order-{number}", properties=properties) for number in range(count)
            )


@dataclass
class Measuring:
    """Takes the figures.

    Attributes:
        sessions: The process with two cores, and maybe that with one.
        site: The servers that hold the messages.
        extent: How much is done.
        results: Gets the figures.
        teller: Says what runs.
        number: Of the round.
        broker: The name of the broker.
    """

    sessions: list[Child]
    site: Site
    extent: Extent
    results: Results
    teller: Teller
    number: int = 0
    broker: str = ""

    def warm_up(self) -> None:
        """Read everything once, and learn the name of the broker.

        Raises:
            BenchmarkError: not all messages are there.
        """
        with PullConsumer("bench-spark", namesrv=self.site.namesrv) as consumer:
            self.broker = consumer.fetch_message_queues(READ_TOPIC)[0].broker_name
        for session in self.sessions:
            found = asked(session, do="count", namesrv=self.site.namesrv, subscribe=READ_TOPIC)
            if found != self.extent.rows:
                raise BenchmarkError(f"Spark reads {found:,.0f} messages instead of {self.extent.rows:,}")

    def take(self, number: int) -> None:
        """One round."""
        self.number = number
        two, *one = self.sessions
        self._read(two, "")
        for queues in (2, 1):
            name = f"{queues}-queue{'s' if queues > 1 else ''}"
            self.teller.step(name)
            self._read_queues(two, f"spark-read-{name}", queues)
        for session in one:
            self._read(session, "-1-core")
        with OURS.run() as site:
            site.create_topic(TOPIC, QUEUES)
            for name in ("foreach", "write"):
                self.teller.step(name)
                self._write(two, site, name)
        self.teller.step("micro-batches")
        self._batches(two)
        self.teller.step("idle")
        self._idle(two)

    def _add(self, row: str, outcome: Outcome) -> None:
        self.results.add(row, NAME_OF_OURS, replace(outcome, round=self.number))

    def _read(self, session: Child, suffix: str) -> None:
        self.teller.step(f"generator{suffix}")
        rows = self.extent.rows // QUEUES * QUEUES
        self._add(f"spark-generator{suffix}", timed(session, self.site, {"do": "generate", "rows": rows}, rows))
        self.teller.step(f"read{suffix}")
        self._read_queues(session, f"spark-read{suffix}", QUEUES)

    def _read_queues(self, session: Child, row: str, queues: int) -> None:
        rows = stored(self.site, READ_TOPIC, queues)
        assigned = json.dumps({READ_TOPIC: {self.broker: list(range(queues))}})
        # Spark ends workers that were idle for a minute, and new ones begin with their imports.
        asked(session, do="read", namesrv=self.site.namesrv, subscribe=STREAM_TOPIC)
        rest(self.site)
        request = {"do": "read", "namesrv": self.site.namesrv, "assign": assigned}
        self._add(row, timed(session, self.site, request, rows))

    def _write(self, session: Child, site: Site, do: str) -> None:
        asked(session, do=do, namesrv=site.namesrv, rows=WARM_ROWS)
        rows, before = self.extent.rows, stored(site, TOPIC)
        rest(site)
        outcome = timed(session, site, {"do": do, "namesrv": site.namesrv, "rows": rows}, rows)
        if (arrived := stored(site, TOPIC) - before) != rows:
            raise BenchmarkError(f"{do}: {arrived:,} messages arrived instead of {rows:,}: the figure says nothing")
        self._add(f"spark-{do}", outcome)

    def _batches(self, session: Child) -> None:
        count = self.extent.batches
        self._add("spark-batch-generator", Outcome(asked(session, do="batches", count=count), count))
        given = {"namesrv": self.site.namesrv, "subscribe": STREAM_TOPIC}
        self._add("spark-batch", Outcome(asked(session, do="batches", count=count, **given), count))

    def _idle(self, session: Child) -> None:
        pids, seconds = (session.pid, self.site.broker_pid), self.extent.idle_seconds
        with tempfile.TemporaryDirectory(prefix="rocketpy-bench-") as folder:
            asked(session, do="idle", folder=folder, namesrv=self.site.namesrv, subscribe=STREAM_TOPIC)
            before, began = own_cpu(*pids), time.monotonic()
            time.sleep(seconds)
            after, took = own_cpu(*pids), time.monotonic() - began
            asked(session, do="rest")
        used = used_between(before, after)
        percent = {role: 100 * used.get(role, 0.0) / took for role in (WORKERS, BROKER, JVM)}
        notes = {f"{role}_percent": percent[role] for role in (BROKER, JVM)}
        self._add("spark-idle", Outcome(percent[WORKERS], 0, notes=notes))


def asked(session: Child, **request: object) -> float:
    """The answer of a session."""
    session.tell(json.dumps(request))
    return float(session.line(WITHIN))
