"""Where a consumer group stands: what it still has to consume, and waiting until that is nothing.

Groups say where they stand every few seconds only, and with every pull. So whoever waits has the held pulls of the
group answered: its consumers pull again at once, and with that say what they have consumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import RocketMQError
from rocketpy.wire.names import SCHEDULE_TOPIC, retry_topic
from rocketpy_broker_sim.broker.delay import level_of_queue, target
from rocketpy_broker_sim.cluster.stored import read_queue

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["WaitTimeoutError", "unconsumed", "wait_consumed"]

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

    Args:
        brokers: those that run, asked each time.
        group: the group.
        topic: the topic.
        timeout: seconds for it.
        next_arrival: returns when a broker has got a message, or runs again.

    Raises:
        WaitTimeoutError: it has not within `timeout` seconds.
    """
    topics = (topic, retry_topic(group))
    pause = _FIRST_PAUSE
    with trio.move_on_after(timeout):
        while True:
            if any(_behind(brokers(), group, topics)):
                await _have_told(brokers(), group, pause)
                pause = min(2 * pause, _LAST_PAUSE)
            elif any(_delayed(brokers(), topics)):
                await next_arrival()
                pause = _FIRST_PAUSE
            else:
                return
    missing = unconsumed(brokers(), group, topic)
    if missing:
        raise WaitTimeoutError(
            f"the group {group} has not consumed all of {topic} within {timeout:g} s:",
            missing=[*missing, _members(brokers(), group)],
            timeout=timeout,
        )


async def _have_told(brokers: Sequence[Broker], group: str, pause: float) -> None:
    """Let the consumers of a group say where they stand, and give them time for it."""
    for broker in brokers:
        broker.held_pulls.release(group)
        broker.turn.finish()
    await trio.sleep(pause)


def unconsumed(brokers: Sequence[Broker], group: str, topic: str) -> list[str]:
    """What a group has not consumed of a topic, one line each."""
    topics = (topic, retry_topic(group))
    return [*_behind(brokers, group, topics), *_delayed(brokers, topics)]


def _behind(brokers: Sequence[Broker], group: str, topics: Sequence[str]) -> Iterator[str]:
    """The queues in which the group has not come to the end."""
    for broker, topic in product(brokers, topics):
        for queue_id in broker.store.queue_ids(topic):
            end = broker.store.max_offset(topic, queue_id)
            stands = max(broker.offsets.query(group, topic, queue_id), broker.store.min_offset(topic, queue_id))
            if stands < end:
                yield f"{topic} queue {queue_id} of {broker.config.broker_name}: {end - stands} not consumed of {end}"


def _delayed(brokers: Sequence[Broker], topics: Sequence[str]) -> Iterator[str]:
    """The messages that wait for the time of their delivery."""
    for broker in brokers:
        delivered = broker.schedule.progress()
        for queue_id in broker.store.queue_ids(SCHEDULE_TOPIC):
            level = level_of_queue(queue_id)
            for message in read_queue(broker, SCHEDULE_TOPIC, queue_id, delivered.get(level, 0)):
                goal = target(message.properties)
                if goal is not None and goal[0] in topics:
                    yield f"{message.message_id} waits for its time (delay level {level}) to come to {goal[0]}"


def _members(brokers: Sequence[Broker], group: str) -> str:
    clients = sorted({client for broker in brokers for client in broker.consumers.client_ids(group)})
    return f"members of the group now: {', '.join(clients) or 'none'}"
