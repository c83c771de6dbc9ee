"""What all producers of a schedule share: the cluster, the record, chance, and a way to let a broker die."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import attrs
import trio

from rocketpy.message import Message, MessageExt, PropertyName
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy_broker_sim import LocalCluster
from tests.checker import ENOUGH, Fault, Outcome, Seen
from tests.schedules.producers.history import History

__all__ = ["AMOUNT", "World", "body_of", "id_of", "keys_of", "seen"]

AMOUNT = "amount"
"""A property of all messages."""


def body_of(name: str, size: int = 0) -> bytes:
    """A body that tells the id of its message, filled up with what can be compressed."""
    return f"{name} ".encode() + b"x" * size


def id_of(body: bytes) -> str:
    """The id of the message with a body."""
    return str(body, "ascii", "replace").partition(" ")[0]


def keys_of(message: Message | MessageExt) -> str | None:
    """Its keys, as they travel."""
    return message.wire_properties.get(PropertyName.KEYS)


def seen(message: MessageExt) -> Seen:
    """A message for the checker."""
    properties = message.wire_properties
    return Seen(
        id=id_of(message.body),
        topic=message.topic,
        broker=message.broker_name,
        queue_id=message.queue_id,
        offset=message.queue_offset,
        body=message.body,
        tags=properties.get(PropertyName.TAGS),
        keys=properties.get(PropertyName.KEYS),
        properties={AMOUNT: properties[AMOUNT]} if AMOUNT in properties else {},
    )


@attrs.frozen
class World:
    """The surroundings of a producer.

    Attributes:
        broker_goes: Lets a broker die (with True) or be restarted, and returns when it is back.
    """

    cluster: LocalCluster
    network: MemoryNetwork
    history: History
    chance: random.Random
    broker_goes: Callable[[bool], Awaitable[None]]

    @property
    def is_enough(self) -> bool:
        """Whether so much is acknowledged that the schedule proves something."""
        history = self.history
        sent = [*history.sends, *(each.send for each in history.transactions.values())]
        return sum(send.outcome is Outcome.OK for send in sent) >= ENOUGH

    def note(self, what: str, lasts: float = 0.0, settles: float = 0.0, since: float | None = None) -> None:
        """Record that something goes wrong, or has gone wrong since a time."""
        now = trio.current_time()
        at = now if since is None else since
        self.history.had[what] += 1
        self.history.faults.append(Fault(at=at, what=what, lasts=lasts + now - at, settles=settles))
