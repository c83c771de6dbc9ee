"""Where a consumer group stands: what it still has to consume, and waiting until that is nothing.

Groups say where they stand every few seconds only, and with every pull. So a wait has the held pulls of the group
answered: its consumers pull again at once, and with that say what they have consumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.wire.enums import MessageModel
from rocketpy.wire.names import SCHEDULE_TOPIC, is_retry_topic, retry_topic
from rocketpy_broker_sim.broker.delay import level_of_queue, target
from rocketpy_broker_sim.broker.tables.subscriptions import DEFAULT_GROUPS
from rocketpy_broker_sim.cluster.arguments import names_like
from rocketpy_broker_sim.cluster.stored import read_queue

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["WaitTimeoutError", "absent", "no_group", "no_topic", "unconsumed", "wait_consumed"]

_FIRST_PAUSE = 0.005
_LAST_PAUSE = 0.25
_MOST_SAID = 20


class WaitTimeoutError(RocketMQError, TimeoutError):
    """What was waited for in a cluster has not come about in time.

    Attributes:
        missing: What is missing, one line each.
        timeout: How long was waited, in seconds.
    """

    def __init__(self, message: str, *, missing: Sequence[str] = (), timeout: float = 0.0) -> None:
        said = list(missing[:_MOST_SAID])
        if len(missing) > _MOST_SAID:
            said.append(f"and {len(missing) - _MOST_SAID} more")
        super().__init__("\n  ".join([message, *said]))
        self.missing = tuple(missing)
        self.timeout = timeout


async def wait_consumed(
    brokers: Callable[[], Sequence[Broker]],
    group: str,
    topic: str,
    timeout: float,
    next_arrival: Callable[[], Awaitable[None]],
) -> None:
    """Wait until a group has consumed everything of a topic, what waits for another try included.

    A topic that is not there, and a group that does not consume it, may still come: they are waited for too.

    Args:
        brokers: those that run, asked each time.
        group: the group.
        topic: the topic.
        timeout: seconds for it.
        next_arrival: returns when a broker has got a message, or runs again.

    Raises:
        ConfigError: the group broadcasts.
        WaitTimeoutError: it has not within `timeout` seconds.
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
                f"the group {group} broadcasts: each of its members keeps its positions to itself, so nobody can say "
                "what it has consumed; look at what its listeners have done instead"
            )


async def _have_told(brokers: Sequence[Broker], group: str, pause: float) -> None:
    """Let the consumers of a group say where they stand, and give them time for it."""
    for broker in brokers:
        broker.pulls.waiters.recall(group)
        broker.storing.turn.finish()
    await trio.sleep(pause)


# --- what is missing -----------------------------------------------------------------------------------


def absent(brokers: Sequence[Broker], group: str, topic: str) -> list[str]:
    """Why there is nothing to wait for yet, one line each: no topic, no such group, or a group of other topics."""
    if not brokers:
        return ["no broker runs: start one"]
    lines = [line for line in (no_topic(brokers, topic), no_group(brokers, group)) if line]
    if lines:
        return lines
    consumed = {name for broker in brokers for name in _topics_of(broker, group)}
    if topic in consumed:
        return []
    others = ", ".join(sorted(name for name in consumed if not is_retry_topic(name)))
    return [f"the group {group} does not consume {topic}" + (f", but {others}" if others else "")]


def _topics_of(broker: Broker, group: str) -> set[str]:
    """The topics that a group subscribes now, and those where it has said how far it came."""
    found = broker.clients.consumers.group(group)
    return broker.offsets.topics_of(group).union(found.subscriptions if found is not None else ())


def no_topic(brokers: Sequence[Broker], topic: str) -> str:
    """A line that says that there is no such topic; "" where there is."""
    if any(topic in broker.topics for broker in brokers):
        return ""
    known = {name for broker in brokers for name in broker.topics.all() if not broker.topics.is_system(name)}
    return f"there is no topic {topic}" + names_like(topic, (name for name in known if name[0] != "%"))


def no_group(brokers: Sequence[Broker], group: str) -> str:
    """A line that says that no such group has ever been here; "" where it has."""
    if any(group in broker.groups or _topics_of(broker, group) for broker in brokers):
        return ""
    known = {name for broker in brokers for name in broker.groups.all()}.difference(DEFAULT_GROUPS)
    return f"no group {group} has ever consumed here" + names_like(group, known)


def unconsumed(brokers: Sequence[Broker], group: str, topic: str) -> list[str]:
    """What a group has not consumed of a topic, one line each."""
    topics = (topic, retry_topic(group))
    return [*_behind(brokers, group, topics), *_delayed(brokers, topics)]


def _behind(brokers: Sequence[Broker], group: str, topics: Sequence[str]) -> Iterator[str]:
    """The queues in which the group has not come to the end."""
    for broker, topic in product(brokers, topics):
        for queue_id in broker.store.reads.queue_ids(topic):
            end = broker.store.reads.max_offset(topic, queue_id)
            stands = max(broker.offsets.query(group, topic, queue_id), broker.store.reads.min_offset(topic, queue_id))
            if stands < end:
                yield f"{topic} queue {queue_id} of {broker.config.broker_name}: {end - stands} not consumed of {end}"


def _delayed(brokers: Sequence[Broker], topics: Sequence[str]) -> Iterator[str]:
    """The messages that wait for the time of their delivery."""
    for broker in brokers:
        delivered = broker.delays.schedule.progress()
        for queue_id in broker.store.reads.queue_ids(SCHEDULE_TOPIC):
            level = level_of_queue(queue_id)
            for message in read_queue(broker, SCHEDULE_TOPIC, queue_id, delivered.get(level, 0)):
                goal = target(message.properties)
                if goal is not None and goal[0] in topics:
                    yield f"{message.message_id} waits for its time (delay level {level}) to come to {goal[0]}"


def _members(brokers: Sequence[Broker], group: str) -> str:
    clients = sorted({client for broker in brokers for client in broker.clients.consumers.client_ids(group)})
    return f"members of the group now: {', '.join(clients) or 'none'}"
