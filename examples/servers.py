"""Servers for the examples: those that the user names, or a small cluster in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster


@contextmanager
def servers(namesrv: str | None, *, traces: bool = False) -> Iterator[str]:
    """Yield these name servers, or those of a cluster that runs in this process during the block.

    With `traces`, the cluster has the topic of message traces.
    """
    if namesrv is not None:
        yield namesrv
        return
    with BlockingLocalCluster(trace_topic_enable=traces) as cluster:
        yield cluster.name_server_addresses


def fill(namesrv: str, topic: str, bodies: list[str], *, queues: int = 2) -> None:
    """Create a topic, and send messages to its queues in turn."""
    with Producer("examples", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=queues)
        places = producer.queues(topic)
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body), queue=places[number % len(places)])
