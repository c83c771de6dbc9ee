"""Where the examples find servers: those that the user names, or a small cluster of the program's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster


@contextmanager
def servers(namesrv: str | None) -> Iterator[str]:
    """Name servers: these, or for the length of the block those of a cluster in this process."""
    if namesrv is not None:
        yield namesrv
        return
    with BlockingLocalCluster() as cluster:
        yield cluster.name_server_addresses


def fill(namesrv: str, topic: str, bodies: list[str], *, queues: int = 2) -> None:
    """Make a topic with some messages, one after the other in each queue."""
    with Producer("examples", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=queues)
        places = producer.queues(topic)
        for number, body in enumerate(bodies):
            producer.send(Message(topic, body.encode()), queue=places[number % len(places)])
