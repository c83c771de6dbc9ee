"""What is handed from broker to broker with a store: filled over the wire, and looked at over the wire.

A `Snapshot` is all that a broker tells of its store, record bytes included, so that what two brokers say of one store
can be compared. Not here: how brokers are started and ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocketpy.message import Message
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.message_codec import decode_messages
from tests.interop import probe
from tests.interop.questions import (
    CREATE_GROUP,
    MAX,
    MIN,
    PULL,
    QUERY_OFFSET,
    SEARCH,
    SEND_BATCH,
    SEND_V2,
    UPDATE_OFFSET,
    group,
    message,
    pull,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocketpy.message import MessageExt

QUERY_MESSAGE, VIEW_MESSAGE, ALL_TOPICS = 12, 33, 21

ORDERS, BILLS, LATER, SCHEDULE = "Orders", "Bills", "Later", "SCHEDULE_TOPIC_XXXX"
QUEUES: Mapping[str, int] = {ORDERS: 4, BILLS: 2}
"""The topics that are compared, with their queues."""
TOPICS: Mapping[str, int] = {**QUEUES, LATER: 1}
"""All of them; `LATER` gets what falls due."""
GROUPS = ("audit", "billing")
SOON, NEVER = 2, 3
"""Delay levels: due while the next broker has the store, and never due in a test."""
SETTINGS: Mapping[str, object] = {
    "messageDelayLevel": "1s 3s 2h",
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1_000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "flushConsumerOffsetInterval": 200,
    "flushDelayOffsetInterval": 200,
    "defaultQueryMaxNum": 64,
}
"""Files so small that a stay at a broker fills several of each kind."""
WITHIN = 20.0
SINGLES, BATCH, DELAYED = 160, 5, 3
PLACE = tuple[str, int]


@dataclass
class Sent:
    """What was put into the store so far, as its brokers acknowledged it.

    Attributes:
        bodies: Queue to the bodies in it, in order.
        keys: Key to the positions of its messages.
        later: Bodies that fall due, by whose stay they were sent in.
        never: How many wait for a time that does not come.
        committed: (group, topic, queue) to the offset that was committed.
        unknown: Body and keys of the send during which a broker was killed.
    """

    bodies: dict[PLACE, list[bytes]] = field(default_factory=dict)
    keys: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    later: list[bytes] = field(default_factory=list)
    never: int = 0
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)
    unknown: tuple[bytes, list[str]] | None = None

    def note(self, topic: str, answer: probe.Answer, items: list[tuple[bytes, list[str]]]) -> None:
        """Take in the acknowledgement of a message or a batch."""
        assert answer.code == 0, answer.remark
        queue = self.bodies.setdefault((topic, int(answer.fields["queueId"])), [])
        assert int(answer.fields["queueOffset"]) == len(queue)
        for (body, keys), id_ in zip(items, answer.fields["msgId"].split(","), strict=True):
            queue.append(body)
            for key in keys:
                self.keys.setdefault((topic, key), []).append(int(id_[-16:], 16))


# --- filling -------------------------------------------------------------------------------------------


def make_topics(broker: str) -> None:
    """Create topics and groups."""
    for topic, queues in TOPICS.items():
        probe.create_topic(broker, topic, queues=queues)
    for name in GROUPS:
        assert probe.call(broker, CREATE_GROUP, {}, group(name)).code == 0


def fill(broker: str, sent: Sent, stay: str) -> None:
    """What a broker is given while it holds the store."""
    for number in range(SINGLES):
        topic = BILLS if number % 5 == 4 else ORDERS
        queue_id = number % QUEUES[topic]
        body, keys = f"{stay} {number} ".encode() * 30, [f"{stay}-{number}", f"tens-{number % 10}"]
        properties = properties_of(stay, number, keys)
        answer = probe.call(broker, SEND_V2, message(topic, queue_id, i=properties, h=number), body)
        sent.note(topic, answer, [(body, keys)])
    _send_batch(broker, sent, stay)
    for level in (SOON, NEVER):
        _send_delayed(broker, sent, stay, level)
    _commit(broker, sent)


def properties_of(stay: str, number: int, keys: list[str]) -> str:
    unique = f"{stay.encode().hex().upper()[:8]:0<8}{number:024X}"
    tag = ("red", "größe")[number % 2]
    return f"TAGS\x01{tag}\x02KEYS\x01{' '.join(keys)}\x02UNIQ_KEY\x01{unique}\x02WAIT\x01true\x02shop\x01北\x02"


def _send_batch(broker: str, sent: Sent, stay: str) -> None:
    items = []
    for number in range(BATCH):
        item = Message(ORDERS, f"{stay} item {number}".encode(), tags="red", keys=f"{stay}-item-{number}")
        item.wire_properties["UNIQ_KEY"] = f"{stay.encode().hex().upper()[:8]:0<8}{number + 1000:024X}"
        items.append(item)
    answer = probe.call(broker, SEND_BATCH, message(ORDERS, 1, i="WAIT\x01true\x02", m="true"), encode_batch(items))
    sent.note(ORDERS, answer, [(item.body, [f"{stay}-item-{number}"]) for number, item in enumerate(items)])


def _send_delayed(broker: str, sent: Sent, stay: str, level: int) -> None:
    for number in range(DELAYED):
        body = f"{stay} delayed {level} {number}".encode()
        properties = (
            f"UNIQ_KEY\x01{stay.encode().hex().upper()[:8]:0<8}{level:08X}{number:016X}\x02DELAY\x01{level}\x02"
        )
        answer = probe.call(broker, SEND_V2, message(LATER, 0, i=properties), body)
        assert answer.code == 0, answer.remark
        if level == SOON:
            sent.later.append(body)
        else:
            sent.never += 1


def _commit(broker: str, sent: Sent) -> None:
    """Both groups get on, each by another part of what is there."""
    for share, name in enumerate(GROUPS, 2):
        for (topic, queue_id), bodies in sent.bodies.items():
            offset = len(bodies) - len(bodies) // share // 10
            # A group that has not pulled since a broker was killed may be beyond lost messages, so our broker refuses
            # its commit.
            probe.call(broker, PULL, pull(topic, queueId=queue_id, queueOffset=0, consumerGroup=name))
            fields = {"consumerGroup": name, "topic": topic, "queueId": queue_id, "commitOffset": offset}
            assert probe.call(broker, UPDATE_OFFSET, fields).code == 0
            sent.committed[name, topic, queue_id] = offset


def wait_written(store: Path, sent: Sent) -> None:
    """Wait until a broker of Apache's that is about to be killed has written down how far the groups are."""

    def look() -> bool | None:
        text = (store / "config" / "consumerOffset.json").read_text("utf-8")
        try:
            table = probe.Answer(0, None, "".join(text.split()).encode()).json()["offsetTable"]
        except json.JSONDecodeError:
            return None  # Apache's broker writes it at this moment
        known = [table.get(f"{topic}@{name}", {}).get(str(queue)) for name, topic, queue in sent.committed]
        return known == list(sent.committed.values()) or None

    probe.eventually(look, "the committed offsets in consumerOffset.json", 20.0)


# --- looking -------------------------------------------------------------------------------------------


@dataclass
class Snapshot:
    """What a broker tells of its store."""

    ends: dict[PLACE, tuple[int, int]] = field(default_factory=dict)
    records: dict[PLACE, list[bytes]] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def bodies(self) -> dict[PLACE, list[bytes]]:
        """The bodies of the records."""
        return {
            place: [each.body for each in decode_messages(b"".join(found))] for place, found in self.records.items()
        }


def look(broker: str) -> Snapshot:
    """Ask for everything in the topics that are compared."""
    found = Snapshot()
    for topic, queues in QUEUES.items():
        for queue_id in range(queues):
            place = topic, queue_id
            found.ends[place] = (end(broker, MIN, place), end(broker, MAX, place))
            found.records[place] = [record for _, record in pulled(broker, place)]
            for name in GROUPS:
                fields = {"consumerGroup": name, "topic": topic, "queueId": queue_id}
                answer = probe.call(broker, QUERY_OFFSET, fields)
                if answer.code == 0:
                    found.committed[name, topic, queue_id] = int(answer.fields["offset"])
    return found


def end(broker: str, code: int, place: PLACE) -> int:
    """The first or the last offset of a queue."""
    answer = probe.call(broker, code, {"topic": place[0], "queueId": place[1]})
    assert answer.code == 0, answer.remark
    return int(answer.fields["offset"])


def pulled(broker: str, place: PLACE, begin: int | None = None) -> list[tuple[MessageExt, bytes]]:
    """Every message of a queue from an offset, or its first, on, with its record."""
    found: list[tuple[MessageExt, bytes]] = []
    offset = end(broker, MIN, place) if begin is None else begin
    while True:
        answer = probe.call(broker, PULL, pull(place[0], queueId=place[1], queueOffset=offset))
        if answer.code != 0:
            return found
        at = 0
        for each in decode_messages(answer.body):
            found.append((each, answer.body[at : at + each.store_size]))
            at += each.store_size
        offset = found[-1][0].queue_offset + 1


def pulled_by_tag(broker: str, place: PLACE, tag: str) -> list[bytes]:
    """Bodies of the messages that a pull with a tag gets, which goes on where each answer says."""
    found: list[bytes] = []
    offset, last = end(broker, MIN, place), end(broker, MAX, place)
    while offset < last:
        asked = pull(place[0], queueId=place[1], queueOffset=offset, subscription=tag)
        answer = probe.call(broker, PULL, asked)
        found += [each.body for each in decode_messages(answer.body)] if answer.code == 0 else []
        following = int(answer.fields["nextBeginOffset"])
        assert following > offset, answer.remark
        offset = following
    return found


def by_key(broker: str, topic: str, key: str, count: int = 64) -> list[int]:
    """Positions of the messages that a query by key finds, lowest first."""
    fields = {"topic": topic, "key": key, "maxNum": count, "beginTimestamp": 0, "endTimestamp": 2**62}
    answer = probe.call(broker, QUERY_MESSAGE, fields)
    return sorted(each.commit_log_offset for each in decode_messages(answer.body)) if answer.code == 0 else []


def by_position(broker: str, position: int) -> bytes:
    """The record at a position, as asked for by message id."""
    answer = probe.call(broker, VIEW_MESSAGE, {"offset": position})
    assert answer.code == 0, answer.remark
    return answer.body


def by_time(broker: str, place: PLACE, timestamp: int) -> int:
    """Where a queue stands at a time."""
    answer = probe.call(broker, SEARCH, {"topic": place[0], "queueId": place[1], "timestamp": timestamp})
    return int(answer.fields["offset"])


def topics(broker: str) -> dict[str, int]:
    """Our topics with their queues."""
    answer = probe.call(broker, ALL_TOPICS)
    assert answer.code == 0, answer.remark
    table = answer.json()["topicConfigTable"]
    return {name: table[name]["readQueueNums"] for name in table if name in TOPICS}
