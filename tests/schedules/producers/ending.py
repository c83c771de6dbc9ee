"""What brokers hold, after each recovery and at the end, and what was left open."""

from __future__ import annotations

from collections import Counter

import attrs
import trio

from rocketpy.message import MessageExt, PropertyName
from rocketpy.wire.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_DISCARD_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy_broker_sim import LocalCluster
from tests.checker import Line, Observation, Seen
from tests.schedules.producers.history import History
from tests.schedules.producers.plan import QUESTIONS, TOPIC, Plan
from tests.schedules.producers.world import id_of, seen

__all__ = ["look_at_brokers", "note_end"]

ASIDE = (SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_HALF_TOPIC)


def look_at_brokers(history: History, cluster: LocalCluster, name: str) -> None:
    """Record everything that brokers hold now; all of them run."""
    for topics, observed, see in (
        ((TOPIC, QUESTIONS), history.observed, seen),
        (ASIDE, history.observed_aside, _seen_aside),
    ):
        found = [see(message) for topic in topics for message in cluster.messages(topic)]
        bounds = {line: bound for topic in topics for line, bound in _bounds(cluster, topic).items()}
        observed.append(Observation(name=name, seen=found, bounds=bounds, at=trio.current_time()))


def _seen_aside(message: MessageExt) -> Seen:
    """A message of a topic of the broker's own; what recalls another one is no message of a producer."""
    found, recalls = seen(message), message.wire_properties.get(PropertyName.TIMER_DEL_UNIQUE_KEY)
    if recalls is None:
        return found
    id_ = f"recall:{recalls.rpartition('+')[2]}"
    return attrs.evolve(found, id=id_, body=b"", tags=None, keys=None, properties={})


def _bounds(cluster: LocalCluster, topic: str) -> dict[Line, tuple[int, int]]:
    return {
        (topic, broker.config.broker_name, queue): (
            broker.store.reads.min_offset(topic, queue),
            broker.store.reads.max_offset(topic, queue),
        )
        for broker in cluster.brokers
        for queue in broker.store.reads.queue_ids(topic)
    }


def note_end(history: History, plan: Plan, cluster: LocalCluster) -> None:
    """Record what brokers hold at the end, and what follows for messages that were parked."""
    look_at_brokers(history, cluster, "the brokers at the end")
    stored: dict[str, Counter[str]] = {}
    for message in cluster.messages(SCHEDULE_TOPIC) + cluster.messages(TIMER_TOPIC):
        stored.setdefault(id_of(message.body), Counter())[message.broker_name] += 1
    for name, timed in history.timed.items():
        timed.copies = stored.get(name, Counter())
    for message in cluster.messages(TRANSACTION_HALF_TOPIC):
        if not _is_copy(message):
            history.transactions[id_of(message.body)].copies += 1
    for message in cluster.messages(TRANSACTION_DISCARD_TOPIC):
        checks = int(message.wire_properties.get(PropertyName.TRANSACTION_CHECK_TIMES, "0"))
        history.transactions[id_of(message.body)].discarded.append(checks)
        history.had["given up"] += 1


def _is_copy(message: MessageExt) -> bool:
    """Whether a broker has copied a half message, to ask about it later."""
    names = (PropertyName.TRANSACTION_CHECK_TIMES, PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET)
    return any(name in message.wire_properties for name in names)
