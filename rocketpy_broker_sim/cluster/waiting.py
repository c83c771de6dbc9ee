"""Waiting until a topic has messages, or a group has consumed everything, and what is missing.

Consumers commit their offsets with every pull, and otherwise only every few seconds. So the wait has the held pulls of
the group answered: its consumers pull again at once, and commit with these pulls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.logs import counted
from rocketpy.wire.enums import MessageModel
from rocketpy.wire.names import SCHEDULE_TOPIC, TIMER_TOPIC, is_retry_topic, retry_topic
from rocketpy_broker_sim.broker.delays.delay import level_of_queue, target
from rocketpy_broker_sim.broker.tables.subscriptions import DEFAULT_GROUPS
from rocketpy_broker_sim.cluster.arguments import names_like
from rocketpy_broker_sim.cluster.stored import count_messages, read_queue, read_topic

if TYPE_CHECKING:
    from rocketpy.message import MessageExt
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = [
    "TIMEOUT",
    "WaitTimeoutError",
    "absent",
    "no_group",
    "no_topic",
    "unconsumed",
    "wait_consumed",
    "wait_messages",
]

TIMEOUT = 10.0
"""Default timeout of the waits, in seconds."""
_FIRST_PAUSE = 0.005
_LAST_PAUSE = 0.25
_MOST_SAID = 20
_SHOWN = 5


class WaitTimeoutError(RocketMQError, TimeoutError):
    """A wait of a cluster has timed out.

    Attributes:
        missing: What is missing, one line each.
        timeout: The timeout, in seconds.
    """

    def __init__(self, message: str, *, missing: Sequence[str] = (), timeout: float = 0.0) -> None:
        said = list(missing[:_MOST_SAID])
        if len(missing) > _MOST_SAID:
            said.append(f"and {len(missing) - _MOST_SAID} more")
        super().__init__("\n  ".join([message, *said]))
        self.missing = tuple(missing)
        self.timeout = timeout


async def wait_messages(
    brokers: Callable[[], Sequence[Broker]],
    topic: str,
    count: int,
    timeout: float,
    next_arrival: Callable[[], Awaitable[None]],
    reason: Callable[[], str],
) -> list[MessageExt]:
    """Wait until a topic has at least `count` messages, and return all of its messages.

    Args:
        brokers: returns the running brokers; called each time.
        topic: the topic.
        count: the number of messages.
        timeout: in seconds.
        next_arrival: returns when a broker has stored a message, or was started again.
        reason: returns why there may be no messages, "" if it does not know.

    Raises:
        WaitTimeoutError: the topic has fewer messages after `timeout` seconds.
    """
    with trio.move_on_after(timeout):
        while count_messages(brokers(), topic) < count:
            await next_arrival()
    found = read_topic(brokers(), topic)
    if len(found) < count:
        shown = [repr(message) for message in found[-_SHOWN:]]
        reasons = [reason() if brokers() else "no broker is running: start one"]
        missing = shown or [text for text in reasons if text]
        more = ", the last of them:" if shown else ":" if missing else ""
        text = f"{topic} has {len(found)} of {count} messages after {timeout:g} s{more}"
        raise WaitTimeoutError(text, missing=missing, timeout=timeout)
    return found


async def wait_consumed(
    brokers: Callable[[], Sequence[Broker]],
    group: str,
    topic: str,
    timeout: float,
    next_arrival: Callable[[], Awaitable[None]],
) -> None:
    """Wait until a group has consumed all messages of a topic, including those that wait for a retry or a moment.

    If the topic does not exist yet, or the group does not consume it yet, this waits for that too.

    Args:
        brokers: returns the running brokers; called each time.
        group: the group.
        topic: the topic.
        timeout: in seconds.
        next_arrival: returns when a broker has stored a message, or was started again.

    Raises:
        ConfigError: the group broadcasts.
        WaitTimeoutError: something is missing after `timeout` seconds.
    """
    topics = (topic, retry_topic(group))
    pause = _FIRST_PAUSE
    with trio.move_on_after(timeout):
        while True:
            _refuse_broadcasting(brokers(), group)
            if absent(brokers(), group, topic):
                await trio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            elif any(_behind(brokers(), group, topics)):
                await _have_told(brokers(), group, pause)
                pause = min(2 * pause, _LAST_PAUSE)
            elif any(_delayed(brokers(), topics)):
                await next_arrival()
                pause = _FIRST_PAUSE
            elif any(_timed(brokers(), topics)):
                with trio.move_on_after(_LAST_PAUSE):  # a recall ends the wait, and nothing arrives then
                    await next_arrival()
                pause = _FIRST_PAUSE
            else:
                return
    missing = [*absent(brokers(), group, topic), *unconsumed(brokers(), group, topic)]
    if missing:
        raise WaitTimeoutError(
            f"the group {group} has not consumed all of {topic} within {timeout:g} s:",
            missing=[*missing, _members(brokers(), group)],
            timeout=timeout,
        )


def _refuse_broadcasting(brokers: Sequence[Broker], group: str) -> None:
    for broker in brokers:
        found = broker.clients.consumers.group(group)
        if found is not None and found.message_model is MessageModel.BROADCASTING:
            raise ConfigError(
                f"the group {group} broadcasts: its members keep their offsets to themselves, so the brokers do not "
                "know what it has consumed; check what its listeners have done instead"
            )


async def _have_told(brokers: Sequence[Broker], group: str, pause: float) -> None:
    """Have the consumers of a group commit their offsets, and give them time for it."""
    for broker in brokers:
        broker.pulls.waiters.recall(group)
        broker.lanes.finish()
    await trio.sleep(pause)


# --- what is missing -----------------------------------------------------------------------------------


def absent(brokers: Sequence[Broker], group: str, topic: str) -> list[str]:
    """Why the group consumes nothing of the topic yet, one line each: no topic, no group, or only other topics."""
    if not brokers:
        return ["no broker is running: start one"]
    lines = [line for line in (no_topic(brokers, topic), no_group(brokers, group)) if line]
    if lines:
        return lines
    consumed = {name for broker in brokers for name in _topics_of(broker, group)}
    if topic in consumed:
        return []
    others = ", ".join(sorted(name for name in consumed if not is_retry_topic(name)))
    return [f"the group {group} does not consume {topic}" + (f"; it consumes {others}" if others else "")]


def _topics_of(broker: Broker, group: str) -> set[str]:
    """The topics that a group subscribes to now, and those for which it has committed offsets."""
    found = broker.clients.consumers.group(group)
    return broker.offsets.topics_of(group).union(found.subscriptions if found is not None else ())


def no_topic(brokers: Sequence[Broker], topic: str) -> str:
    """A line that says that there is no such topic; "" if there is."""
    if any(topic in broker.topics for broker in brokers):
        return ""
    known = {name for broker in brokers for name in broker.topics.all() if not broker.topics.is_system(name)}
    return f"there is no topic {topic}" + names_like(topic, (name for name in known if name[0] != "%"))


def no_group(brokers: Sequence[Broker], group: str) -> str:
    """A line that says that the brokers do not know the group; "" if they do."""
    if any(group in broker.groups or _topics_of(broker, group) for broker in brokers):
        return ""
    known = {name for broker in brokers for name in broker.groups.all()}.difference(DEFAULT_GROUPS)
    return f"no group {group} has ever consumed here" + names_like(group, known)


def unconsumed(brokers: Sequence[Broker], group: str, topic: str) -> list[str]:
    """The queues and delayed messages of a topic that a group has not consumed, one line each."""
    topics = (topic, retry_topic(group))
    return [*_behind(brokers, group, topics), *_delayed(brokers, topics), *_timed(brokers, topics)]


def _behind(brokers: Sequence[Broker], group: str, topics: Sequence[str]) -> Iterator[str]:
    """The queues that the group has not consumed to the end."""
    for broker, topic in product(brokers, topics):
        for queue_id in broker.store.reads.queue_ids(topic):
            end = broker.store.reads.max_offset(topic, queue_id)
            stands = max(broker.offsets.query(group, topic, queue_id), broker.store.reads.min_offset(topic, queue_id))
            if stands < end:
                yield f"{topic} queue {queue_id} of {broker.config.broker_name}: {end - stands} not consumed of {end}"


def _delayed(brokers: Sequence[Broker], topics: Sequence[str]) -> Iterator[str]:
    """The messages that wait for a delay level to pass."""
    for broker in brokers:
        delivered = broker.delays.schedule.progress()
        for queue_id in broker.store.reads.queue_ids(SCHEDULE_TOPIC):
            level = level_of_queue(queue_id)
            for message in read_queue(broker, SCHEDULE_TOPIC, queue_id, delivered.get(level, 0)):
                goal = target(message.wire_properties)
                if goal is not None and goal[0] in topics:
                    yield f"{message.message_id} waits for its delay (level {level}) before it comes to {goal[0]}"


def _timed(brokers: Sequence[Broker], topics: Sequence[str]) -> Iterator[str]:
    """How many messages of each topic wait for the moment at which they are to be delivered."""
    for broker in brokers:
        if not broker.timers.is_on:
            continue
        timers, metrics = broker.timers.timers, broker.timers.metrics
        untaken = [target(each.wire_properties) for each in read_queue(broker, TIMER_TOPIC, 0, timers.queue_offset)]
        for topic in topics:
            count = sum(goal is not None and goal[0] == topic for goal in untaken)
            count += metrics.count(topic) if timers.wheel.waiting else 0
            if count > 0:
                name = broker.config.broker_name
                yield f"{counted(count, 'message')} of {name} to {topic} still to be delivered at a later moment"


def _members(brokers: Sequence[Broker], group: str) -> str:
    clients = sorted({client for broker in brokers for client in broker.clients.consumers.client_ids(group)})
    return f"members of the group now: {', '.join(clients) or 'none'}"
