"""Every public call of Admin, each with arguments that make sense, and what must come of it.

The calls are made one after the other: what one of them has created is there for those below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

import rocketpy
import rocketpy.admin
from rocketpy import MessageExt, MessageQueue, SendStatus
from rocketpy.admin import DirectOutcome, TrackStatus

__all__ = ["CALLS", "PARTS", "Place", "every_call"]

PARTS = {
    "topics": "Topics",
    "groups": "Groups",
    "offsets": "Offsets",
    "messages": "Messages",
    "consumers": "Consumers",
    "producers": "Producers",
    "brokers": "Brokers",
    "name_servers": "NameServers",
}
BROKER, CLUSTER = "broker-a", "DefaultCluster"


@attrs.frozen
class Place:
    """What there is to administer.

    Attributes:
        namesrv: the name server.
        topic: it has one queue and three messages: one with a key, a dead letter, one that was traced.
        group: has one member, which is connected, and one dead letter.
        client_id: of the member.
        shop: the group of a producer that is connected.
        keyed: the message with the key "k", as it was read from the broker.
        traced: the id of the message whose producer has traced it.
    """

    namesrv: str
    topic: str
    group: str
    client_id: str
    shop: str
    keyed: MessageExt
    traced: str

    @property
    def queue(self) -> MessageQueue:
        """The only queue of the topic."""
        return MessageQueue(self.topic, BROKER, 0)

    @property
    def new(self) -> str:
        """The name of a topic, and of a group, that calls create and delete."""
        return f"{self.topic}-new"


def every_call() -> Iterator[str]:
    """The names of the public calls of all parts on trio, as the table has them."""
    for attribute, part in vars(rocketpy.Admin).items():
        if not isinstance(part, property):
            continue
        kind = getattr(rocketpy.admin, PARTS[attribute])
        yield from (f"{attribute}.{each}" for each in dir(kind) if not each.startswith("_"))


def _only(found: Any) -> Any:
    (one,) = found
    return one


Calls = dict[str, tuple[Callable[[Any, Place], Any], Callable[[Any, Place], Any]]]

_TOPICS: Calls = {
    "topics.create": (
        lambda a, p: a.topics.create(p.new, queues=2, read_queues=3, permission="r", brokers=[BROKER], exist_ok=True),
        lambda found, p: (_only(found).topic, _only(found).write_queues, _only(found).read_queues) == (p.new, 2, 3),
    ),
    "topics.update": (
        lambda a, p: a.topics.update(p.new, queues=4, read_queues=4, permission="rw", brokers=(BROKER,)),
        lambda found, p: (_only(found).write_queues, _only(found).permission) == (4, "rw"),
    ),
    "topics.get": (lambda a, p: a.topics.get(p.new), lambda found, p: _only(found).write_queues == 4),
    "topics.list": (
        lambda a, p: a.topics.list(cluster=CLUSTER, internal=False),
        lambda found, p: {p.topic, p.new} <= set(found) and "TBW102" not in found,
    ),
    "topics.get_all": (
        lambda a, p: a.topics.get_all(cluster=CLUSTER),
        lambda found, p: {each.topic: each.write_queues for each in found}[p.new] == 4,
    ),
    "topics.traffic": (
        lambda a, p: a.topics.traffic(p.topic),
        lambda found, p: found.topic == p.topic and p.group in {each.group for each in found.groups},
    ),
    "topics.route": (lambda a, p: a.topics.route(p.topic), lambda found, p: _only(found.brokers).broker == BROKER),
    "topics.stats": (lambda a, p: a.topics.stats(p.topic), lambda found, p: _only(found.queues).end == 3),
    "name_servers.set_order": (
        lambda a, p: a.name_servers.set_order(p.new, {BROKER: 4}),
        lambda found, p: found is None,
    ),
    "topics.delete": (lambda a, p: a.topics.delete(p.new, cluster=CLUSTER), lambda found, p: found is None),
}
_GROUPS: Calls = {
    "groups.create": (
        lambda a, p: a.groups.create(p.new, orderly=True, max_retries=3, consume_timeout=60, brokers=[BROKER]),
        lambda found, p: (_only(found).group, _only(found).orderly, _only(found).max_retries) == (p.new, True, 3),
    ),
    "groups.update": (
        lambda a, p: a.groups.update(p.new, max_retries=5, brokers=[BROKER]),
        lambda found, p: _only(found).max_retries == 5,
    ),
    "groups.set_readable": (
        lambda a, p: a.groups.set_readable(p.new, p.topic, False),
        lambda found, p: found == (BROKER,),
    ),
    "groups.get": (
        lambda a, p: a.groups.get(p.new),
        lambda found, p: (_only(found).max_retries, _only(found).forbidden_topics) == (5, (p.topic,)),
    ),
    "groups.get_all": (
        lambda a, p: a.groups.get_all(brokers=[BROKER]),
        lambda found, p: {each.group: each.max_retries for each in found}[p.new] == 5,
    ),
    "groups.list": (
        lambda a, p: a.groups.list(cluster=CLUSTER),
        lambda found, p: {p.group, p.new} <= set(found) and "TOOLS_CONSUMER" not in found,
    ),
}
_OFFSETS: Calls = {
    "offsets.at": (lambda a, p: a.offsets.at(p.queue, 0), lambda found, p: found == 0),
    "offsets.commit": (lambda a, p: a.offsets.commit(p.new, p.queue, 1), lambda found, p: found is None),
    "offsets.lag": (
        lambda a, p: a.offsets.lag(p.new, topic=p.topic),
        lambda found, p: (found.group, found.lag) == (p.new, 2),
    ),
    "offsets.lags": (
        lambda a, p: a.offsets.lags(cluster=CLUSTER, internal=True),
        lambda found, p: {each.group: each.lag for each in found}[p.new] == 2,
    ),
    "offsets.reset": (
        lambda a, p: a.offsets.reset(p.new, p.topic, "end"),
        lambda found, p: (_only(found).queue, _only(found).offset) == (p.queue, 3),
    ),
    "offsets.clone": (lambda a, p: a.offsets.clone(p.group, p.new, p.topic), lambda found, p: found is None),
    "groups.delete": (
        lambda a, p: a.groups.delete(p.new, offsets=True, cluster=CLUSTER),
        lambda found, p: found is None,
    ),
}
_MESSAGES: Calls = {
    "messages.view": (
        lambda a, p: a.messages.view(p.keyed.message_id, topic=p.topic),
        lambda found, p: found.body == p.keyed.body,
    ),
    "messages.query": (
        lambda a, p: a.messages.query(p.topic, "k", begin=0, max_messages=5),
        lambda found, p: _only(found).message_id == p.keyed.message_id,
    ),
    "messages.query_unique": (
        lambda a, p: a.messages.query_unique(p.topic, p.keyed.message_id),
        lambda found, p: _only(found).keys == p.keyed.keys,
    ),
    "messages.read": (
        lambda a, p: a.messages.read(p.queue, begin=1, end=3, max_messages=5, tags="dead"),
        lambda found, p: _only(found).tags == "dead",
    ),
    "messages.entries": (
        lambda a, p: a.messages.entries(p.queue, begin=1, count=2, group=p.group),
        lambda found, p: [(each.offset, each.delivered) for each in found.entries] == [(1, True), (2, True)],
    ),
    "messages.by_time": (
        lambda a, p: a.messages.by_time(p.topic, 0, max_messages=2),
        lambda found, p: [each.queue_offset for each in found] == [0, 1],
    ),
    "messages.track": (
        lambda a, p: a.messages.track(p.keyed),
        lambda found, p: {each.group: each.status for each in found}[p.group] is TrackStatus.CONSUMED,
    ),
    "messages.trace": (
        lambda a, p: a.messages.trace(p.traced, trace_topic="RMQ_SYS_TRACE_TOPIC"),
        lambda found, p: [each.kind for each in found] == ["Pub"],
    ),
    "messages.dead_letters": (
        lambda a, p: a.messages.dead_letters(p.group, begin=0, max_messages=5),
        lambda found, p: _only(found).tags == "dead",
    ),
    "messages.replay_dead_letters": (
        lambda a, p: a.messages.replay_dead_letters(p.group, limit=1, dry_run=True),
        lambda found, p: (found.replayed, found.topics) == (1, {p.topic: 1}),
    ),
}
_CLIENTS: Calls = {
    "consumers.connections": (
        lambda a, p: a.consumers.connections(p.group),
        lambda found, p: _only(found.clients).client_id == p.client_id,
    ),
    "consumers.of_topic": (
        lambda a, p: a.consumers.of_topic(p.topic),
        lambda found, p: p.group in found,
    ),
    "consumers.topics": (lambda a, p: a.consumers.topics(p.group), lambda found, p: p.topic in found),
    "consumers.state": (
        lambda a, p: a.consumers.state(p.group, p.client_id, stacks=True),
        lambda found, p: found.client_id == p.client_id and "rocketpy" in str(found.stacks),
    ),
    "consumers.offsets": (
        lambda a, p: a.consumers.offsets(p.group, p.topic, client_id=p.client_id),
        lambda found, p: (_only(found).queue, _only(found).offset) == (p.queue, 3),
    ),
    "consumers.consume": (
        lambda a, p: a.consumers.consume(p.group, p.client_id, p.keyed),
        lambda found, p: found.outcome is DirectOutcome.SUCCESS,
    ),
    "producers.connections": (
        lambda a, p: a.producers.connections(p.shop),
        lambda found, p: _only(found).group == p.shop,
    ),
    "producers.list": (lambda a, p: a.producers.list(), lambda found, p: p.shop in {each.group for each in found}),
    # The last that counts messages: it adds one.
    "messages.resend": (
        lambda a, p: a.messages.resend(p.keyed, topic=p.topic),
        lambda found, p: found.status is SendStatus.SEND_OK and found.queue == p.queue,
    ),
}
_BROKERS: Calls = {
    "brokers.list": (lambda a, p: a.brokers.list(cluster=CLUSTER), lambda found, p: _only(found).name == BROKER),
    "brokers.update_config": (
        lambda a, p: a.brokers.update_config({"defaultTopicQueueNums": 7}, brokers=[BROKER]),
        lambda found, p: found is None,
    ),
    "brokers.config": (
        lambda a, p: a.brokers.config(BROKER),
        lambda found, p: found["defaultTopicQueueNums"] == "7",
    ),
    "brokers.replication": (
        lambda a, p: a.brokers.replication(BROKER),
        lambda found, p: (found.broker, found.is_master, found.slaves) == (BROKER, True, ()),
    ),
    "brokers.runtime": (lambda a, p: a.brokers.runtime(BROKER), lambda found, p: found.broker == BROKER),
    "brokers.runtimes": (
        lambda a, p: a.brokers.runtimes(cluster=CLUSTER),
        lambda found, p: _only(found).broker == BROKER,
    ),
    "brokers.stats": (
        lambda a, p: a.brokers.stats(BROKER, "TOPIC_PUT_NUMS", p.topic),
        lambda found, p: (found.broker, found.name, found.key) == (BROKER, "TOPIC_PUT_NUMS", p.topic),
    ),
    "brokers.set_writable": (
        lambda a, p: a.brokers.set_writable(BROKER, True),
        lambda found, p: found > 0,
    ),
    "brokers.delete_expired_files": (
        lambda a, p: a.brokers.delete_expired_files(brokers=[BROKER]),
        lambda found, p: found is None,
    ),
    "brokers.delete_expired_queues": (
        lambda a, p: a.brokers.delete_expired_queues(cluster=CLUSTER),
        lambda found, p: found is None,
    ),
    "brokers.delete_unused_queues": (lambda a, p: a.brokers.delete_unused_queues(), lambda found, p: found is None),
}
_NAME_SERVERS: Calls = {
    "name_servers.addresses": (lambda a, p: a.name_servers.addresses, lambda found, p: found == (p.namesrv,)),
    "name_servers.put": (lambda a, p: a.name_servers.put(p.topic, "one", "1"), lambda found, p: found is None),
    "name_servers.get": (lambda a, p: a.name_servers.get(p.topic, "one"), lambda found, p: found == "1"),
    "name_servers.list": (lambda a, p: a.name_servers.list(p.topic), lambda found, p: found == {"one": "1"}),
    "name_servers.delete": (lambda a, p: a.name_servers.delete(p.topic, "one"), lambda found, p: found is None),
    "name_servers.update_config": (
        lambda a, p: a.name_servers.update_config({"orderMessageEnable": True}),
        lambda found, p: found is None,
    ),
    "name_servers.config": (
        lambda a, p: a.name_servers.config(),
        lambda found, p: (_only(found).server, _only(found)["orderMessageEnable"]) == (p.namesrv, "true"),
    ),
}
CALLS: Calls = _TOPICS | _GROUPS | _OFFSETS | _MESSAGES | _CLIENTS | _BROKERS | _NAME_SERVERS
