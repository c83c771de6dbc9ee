"""Everything in one process: a cluster, a producer that sends without waiting, and two consumers of one group."""

from __future__ import annotations

import threading

import rocketpy.sync
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError
from rocketpy_broker_sim import BlockingLocalCluster

TOPIC = "Embedded"
QUEUES = 8
WITHIN = 60.0


class Received:
    """A listener that counts and knows when everything has come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = threading.Event()
        self._count = 0
        self._wanted: int | None = None

    def __call__(self, messages: list[rocketpy.MessageExt]) -> None:
        with self._lock:
            self._count += len(messages)
            if self._wanted is not None and self._count >= self._wanted:
                self._all.set()

    def wait(self, wanted: int) -> None:
        """Until so many have come.

        Raises:
            BenchmarkError: they do not.
        """
        with self._lock:
            self._wanted = wanted
            if self._count >= wanted:
                self._all.set()
        if not self._all.wait(WITHIN):
            raise BenchmarkError(f"{self._count} of {wanted} messages were consumed within {WITHIN:g} s")


def measure(task: Task) -> Outcome:
    """Sent and consumed, in messages a second."""
    received = Received()
    with BlockingLocalCluster() as cluster:
        namesrv = cluster.name_server_addresses
        with rocketpy.sync.Producer("bench_embedded", namesrv=namesrv) as producer:
            producer.create_topic(TOPIC, queues=QUEUES)
            with _consumer(namesrv, received), _consumer(namesrv, received):
                tickets, meter = Tickets(task.budget), Meter()
                meter.start()
                futures = []
                while tickets.take():
                    futures.append(producer.send_soon(rocketpy.Message(TOPIC, BODY)))
                for future in futures:
                    future.result()
                received.wait(tickets.given)
                meter.stop()
    return Outcome.rate(tickets.given, meter)


def _consumer(namesrv: str, received: Received) -> rocketpy.sync.PushConsumer:
    consumer = rocketpy.sync.PushConsumer(
        "bench_embedded",
        namesrv=namesrv,
        consume_from_where=rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_message_batch_max_size=32,
    )
    consumer.subscribe(TOPIC, received)
    return consumer


SHAPE = Shape("embedded", "cluster, send_soon and two consumers in one process", measure, alone=True)
