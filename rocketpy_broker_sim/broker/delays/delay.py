"""Messages with a delay level: parked in the schedule topic, and what they were meant for.

Sends, messages that consumers give back and committed transactions all go through `DelayStage` on their way into the
log; the schedule service reads `target` when they are due. REAL_TOPIC, REAL_QID and DELAY stay in the properties of the
delivered message, as with Apache's broker. Plays the part of the delay half of HookUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.putting.put_pipeline import step

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = [
    "TIMER_PROPERTIES",
    "DelayStage",
    "delay_level",
    "level_of_queue",
    "queue_of_level",
    "target",
    "to_delay_topic",
]

TIMER_PROPERTIES = (PropertyName.TIMER_DELIVER_MS, PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELAY_MS)
"""How a client asks for a moment of its own; a delay level takes precedence over it."""


def delay_level(properties: dict[str, str]) -> int | None:
    """The level that a message asks for, 0 for none; None when what stands there is no number."""
    text = properties.get(PropertyName.DELAY)
    if text is None:
        return 0
    if len(text) > 11 or not text.removeprefix("-").isdigit() or not text.isascii():
        return None
    return int(text)


def to_delay_topic(message: IncomingMessage, properties: dict[str, str], level: int, levels: int) -> None:
    """Turn a message into one that waits in the schedule topic.

    Args:
        message: gets the schedule topic, the queue of its level, and the property text.
        properties: its properties; gets where the message was meant to go.
        level: what it asks for, at least 1; more than there are means the highest.
        levels: how many levels there are.
    """
    level = min(level, levels)
    for name in TIMER_PROPERTIES:
        properties.pop(name, None)
    properties[PropertyName.DELAY] = str(level)
    properties[PropertyName.REAL_TOPIC] = message.topic
    properties[PropertyName.REAL_QUEUE_ID] = str(message.queue_id)
    message.properties = encode_properties(properties)
    message.topic = SCHEDULE_TOPIC
    message.queue_id = queue_of_level(level)


class DelayStage:
    """The stage of the put pipeline that parks messages with a delay level.

    Args:
        levels: how many levels there are.
        refusal: code and words of why there may be no queue that a message will be delivered to, None when there may.
            A message that is parked must find one when it is due.
    """

    watches = frozenset({PropertyName.DELAY, *TIMER_PROPERTIES})

    def __init__(self, levels: int, refusal: Callable[[IncomingMessage], tuple[int, str] | None]) -> None:
        self._levels = levels
        self._refusal = refusal

    def take(self, puts: Sequence[Put]) -> None:
        """Park what asks for a level; a text that is no number asks for none."""
        step(puts, self._take)

    def _take(self, put: Put) -> None:
        if put.message is not None and put.properties is not None:
            level = delay_level(put.properties)
            if level is not None and level > 0:
                put.refusal = self._refusal(put.message)
                to_delay_topic(put.message, put.properties, level, self._levels)


def queue_of_level(level: int) -> int:
    """The queue of the schedule topic in which a level waits."""
    return level - 1


def level_of_queue(queue_id: int) -> int:
    """The level that waits in a queue of the schedule topic."""
    return queue_id + 1


def target(properties: dict[str, str]) -> tuple[str, int] | None:
    """Topic and queue that a message in the schedule topic was meant for; None when it does not say."""
    topic = properties.get(PropertyName.REAL_TOPIC)
    queue = properties.get(PropertyName.REAL_QUEUE_ID, "")
    if not topic or not queue.isdigit() or not queue.isascii() or len(queue) > 9:
        return None
    return topic, int(queue)
