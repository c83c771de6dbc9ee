"""Which queue a message goes to. Plain functions, so that every way of sending shares them.

The order of the queues is the same in every language, and so are the hashes: every client sends the same sharding key
to the same queue. Plays the part of TopicPublishInfo.selectOneMessageQueue, ThreadLocalIndex and of the
MessageQueueSelector classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageQueue
from rocketpy.seams import random_source
from rocketpy.wire.java_hash import string_hash

if TYPE_CHECKING:
    from rocketpy.client.fault import MQFaultStrategy

__all__ = ["QueueSelector", "RoundRobin", "by_hash", "by_random", "select_by", "select_queue", "sharding_queue"]

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""Chooses one of the queues for a message, with the argument that was given to the send."""


class RoundRobin:
    """One counter a topic, each beginning at a random place so that many producers do not start at the same queue."""

    def __init__(self) -> None:
        self._counters: dict[str, Iterator[int]] = {}

    def counter(self, topic: str) -> Iterator[int]:
        """The counter of a topic. Taking the next number is safe from any thread."""
        found = self._counters.get(topic)
        if found is None:
            found = self._counters.setdefault(topic, itertools.count(random_source().randrange(2**31)))
        return found


def select_queue(
    queues: Sequence[MessageQueue],
    counter: Iterator[int],
    *,
    avoid: str | None = None,
    fault: MQFaultStrategy | None = None,
    oneway: bool = False,
) -> MessageQueue:
    """The next queue in turn; with `oneway` for a send without an answer.

    A broker that has just failed (`avoid`) and brokers that rest are passed over; when only such are left, one of the
    least bad of them is taken all the same: there is always an answer.

    Raises:
        ConfigError: there are no queues.
    """
    if not queues:
        raise ConfigError("there is no queue to choose from")
    if fault is None or not fault.enabled:
        return _next_but(queues, counter, avoid) if avoid is not None else queues[next(counter) % len(queues)]

    def is_wanted(name: str) -> bool:
        return name != avoid and fault.is_available(name, oneway=oneway)

    chosen = _next_where(queues, counter, is_wanted)
    if chosen is not None and not fault.is_held_against(chosen.broker_name):
        return chosen
    with fault.lock:  # or two threads would both take the one probe
        if chosen is None or not is_wanted(chosen.broker_name):
            chosen = _next_where(queues, counter, is_wanted) or _least_bad(queues, counter, avoid, fault)
        fault.chosen(chosen.broker_name, oneway=oneway)
    return chosen


def _least_bad(
    queues: Sequence[MessageQueue], counter: Iterator[int], avoid: str | None, fault: MQFaultStrategy
) -> MessageQueue:
    """A queue although all brokers rest, or are avoided."""
    names = fault.pick_at_least_one({queue.broker_name for queue in queues} - {avoid})
    return _next_where(queues, counter, names.__contains__) or queues[next(counter) % len(queues)]


def _next_but(queues: Sequence[MessageQueue], counter: Iterator[int], avoid: str) -> MessageQueue:
    found = _next_where(queues, counter, lambda name: name != avoid)
    return found or queues[next(counter) % len(queues)]


def _next_where(
    queues: Sequence[MessageQueue], counter: Iterator[int], wanted: Callable[[str], bool]
) -> MessageQueue | None:
    """One round at most. The counter moves with every queue looked at, so that the wanted ones share evenly."""
    for _ in queues:
        queue = queues[next(counter) % len(queues)]
        if wanted(queue.broker_name):
            return queue
    return None


# --- selectors -----------------------------------------------------------------------------------------


def sharding_queue(queues: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """The queue of a sharding key: by Java's hash of the text.

    Raises:
        ConfigError: there are no queues.
    """
    return _at(queues, string_hash(sharding_key))


def by_hash(queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:
    """By the hash that Java gives to the argument: text, a whole number or a truth value.

    Raises:
        ConfigError: the argument is of another kind, for which other languages have another hash, or none.
    """
    if isinstance(arg, str):
        return _at(queues, string_hash(arg))
    if isinstance(arg, bool):
        return _at(queues, 1231 if arg else 1237)
    if isinstance(arg, int) and -(2**63) <= arg < 2**63:
        return _at(queues, _int_hash(arg))
    raise ConfigError(
        f"expected a str or an int of 64 bits to choose a queue by, got {arg!r}; or pass a selector of your own"
    )


def by_random(queues: Sequence[MessageQueue], message: Message, arg: Any = None) -> MessageQueue:
    """Any of them.

    Raises:
        ConfigError: there are no queues.
    """
    return _at(queues, random_source().randrange(max(1, len(queues))))


def select_by(selector: QueueSelector, queues: Sequence[MessageQueue], message: Message, arg: Any) -> MessageQueue:
    """Ask a selector, and check what it says. The sender gets the exception that it raises.

    Raises:
        ConfigError: it did not choose one of the queues.
    """
    chosen = selector(queues, message, arg)
    if chosen not in queues:
        raise _not_chosen(chosen, len(queues))
    return chosen


def _not_chosen(chosen: object, count: int) -> ConfigError:
    """The error for what a selector returned in place of one of `count` queues."""
    if iscoroutine(chosen):
        chosen.close()  # or Python would warn that nobody has awaited it
        return ConfigError("the selector is async: give a plain function, which returns one of the queues")
    return ConfigError(f"the selector chose {chosen!r}, which is not one of the {count} queues that it was given")


def _at(queues: Sequence[MessageQueue], number: int) -> MessageQueue:
    if not queues:
        raise ConfigError("there is no queue to choose from")
    return queues[abs(number) % len(queues)]


def _int_hash(value: int) -> int:
    """Integer.hashCode where it fits an int, Long.hashCode beyond."""
    if -(2**31) <= value < 2**31:
        return value
    low = (value ^ (value >> 32)) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low
