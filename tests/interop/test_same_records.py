"""What Apache's broker and ours make of the same message on the way: the records they store have to mean the same.

Sent, sent in a batch, delayed, given back, given back too often: every record is pulled from both and compared.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.message import Message
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.message_codec import decode_messages
from tests.interop import lines, probe
from tests.interop.questions import CREATE_GROUP, PULL, SEND_BACK, SEND_BATCH, SEND_V2, group, message, pull

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.message import MessageExt
    from tests.interop.apache import Apache, Cluster
    from tests.interop.lines import Line

pytestmark = pytest.mark.interop

UNIQUE = "0C" * 16
PROPERTIES = f"TAGS\x01größe\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01{UNIQUE}\x02WAIT\x01false\x02shop\x01北\x02"
OF_THE_PLACE = {"ORIGIN_MESSAGE_ID"}
"""Properties that name a broker's address."""


class Side:
    """One of the two brokers."""

    def __init__(self, cluster: Cluster, line: Line) -> None:
        self.address = cluster.brokers[0].address
        self.line = line

    def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> probe.Answer:
        answer = probe.call(self.address, code, fields, body, timeout=10)
        assert answer.code == 0, answer.remark
        return answer

    def stored(self, topic: str, count: int = 1) -> list[MessageExt]:
        """The messages in queue 0 of a topic, once there are so many."""

        def look() -> list[MessageExt] | None:
            answer = probe.call(self.address, PULL, pull(topic))
            found = decode_messages(answer.body) if answer.code == 0 else []
            return found if len(found) >= count else None

        return probe.eventually(look, f"{count} messages in {topic} of {self.address}", 20.0)


@pytest.fixture
def sides(apache: Apache, apache_cluster: Cluster, our_servers: Cluster) -> tuple[Side, Side]:
    line = lines.of(apache.version)
    return Side(apache_cluster, line), Side(our_servers, line)


@pytest.fixture
def topic(sides: tuple[Side, Side], fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Recorded")
    for side in sides:
        probe.create_topic(side.address, name, queues=1)
    return name


def meaning(record: MessageExt, line: Line, separators_missing: int = 0) -> dict[str, Any]:
    """Everything that must not depend on who stored it, nor when, as far as brokers of the line know it."""
    properties = lines.known(record.wire_properties, line)
    return {
        "topic": record.topic,
        "place": (record.queue_id, record.queue_offset),
        "flags": (record.flag, record.sys_flag),
        "times": (record.reconsume_times, record.born_timestamp, record.prepared_transaction_offset),
        "body": record.body,
        "crc": record.body_crc,
        "born host": record.born_host.rpartition(":")[0],
        "size": lines.size_without_properties(record, separators_missing),
        "properties": {name: "" if name in OF_THE_PLACE else value for name, value in properties.items()},
    }


def check_alike(sides: tuple[Side, Side], topic: str, count: int = 1) -> list[MessageExt]:
    theirs, ours = (side.stored(topic, count) for side in sides)
    line = sides[0].line
    assert [meaning(each, line) for each in ours] == [meaning(each, line, line.separators_missing) for each in theirs]
    return ours


def test_a_message(sides: tuple[Side, Side], topic: str) -> None:
    packed = zlib.compress(b"flight " * 1000)
    for side in sides:
        side.ask(SEND_V2, message(topic, i=PROPERTIES, h=-9), b"body")
        side.ask(SEND_V2, message(topic, i=PROPERTIES, f=0x301), packed)
        side.ask(SEND_V2, message(topic, i=""), b"without any properties of its own")
    stored = check_alike_but_ids(sides, topic, 3)
    assert stored[1].body == b"flight " * 1000


def check_alike_but_ids(sides: tuple[Side, Side], topic: str, count: int) -> list[MessageExt]:
    """For messages that get their unique id from the broker."""
    theirs, ours = (side.stored(topic, count) for side in sides)
    line = sides[0].line
    for mine, other in zip(ours, theirs, strict=True):
        pair = meaning(mine, line), meaning(other, line, line.separators_missing)
        own, other_id = (each["properties"].pop("UNIQ_KEY", "") for each in pair)
        assert len(own) == 32
        assert len(other_id) == 32 or not line.gives_unique_ids
        assert pair[0] == pair[1]
    return ours


def test_a_batch(sides: tuple[Side, Side], topic: str) -> None:
    items = []
    for number in range(3):
        item = Message(topic, b"item-%d" % number, tags="t", keys=f"k{number}", properties={"n": str(number)})
        item.wire_properties["UNIQ_KEY"] = f"{number:02X}" * 16
        items.append(item)
    for side in sides:
        side.ask(SEND_BATCH, message(topic, i="WAIT\x01true\x02", m="true"), encode_batch(items))
    assert [each.body for each in check_alike(sides, topic, 3)] == [b"item-0", b"item-1", b"item-2"]


def test_a_delayed_message(sides: tuple[Side, Side], topic: str) -> None:
    for side in sides:
        side.ask(SEND_V2, message(topic, i=f"{PROPERTIES}DELAY\x011\x02"), b"later")
    (stored,) = check_alike(sides, topic)
    assert stored.system_properties["DELAY"] == "1"


@pytest.mark.parametrize("level", [0, 1], ids=["broker decides", "level 1"])
def test_a_message_that_is_given_back(
    sides: tuple[Side, Side], topic: str, fresh_name: Callable[[str], str], level: int
) -> None:
    name = fresh_name("recorded-group")
    for side in sides:
        give_back(side, topic, name, level)
    (stored,) = check_alike(sides, f"%RETRY%{name}")
    assert (stored.reconsume_times, stored.system_properties["RETRY_TOPIC"]) == (1, topic)
    assert stored.system_properties["ORIGIN_MESSAGE_ID"] == sides[1].stored(topic)[0].offset_message_id
    for side in sides:
        give_back(side, f"%RETRY%{name}", name, -1)
    (dead,) = check_alike(sides, f"%DLQ%{name}")
    assert (dead.reconsume_times, dead.system_properties["RETRY_TOPIC"]) == (2, topic)


def give_back(side: Side, topic: str, name: str, level: int) -> None:
    """Give back the first message of a topic; send it before when it is not a retry topic."""
    if not topic.startswith("%"):
        side.ask(CREATE_GROUP, {}, group(name))
        side.ask(SEND_V2, message(topic, i=PROPERTIES), b"not now")
    (stored,) = side.stored(topic)
    fields = {"offset": stored.commit_log_offset, "group": name, "delayLevel": level, "unitMode": "false"}
    fields |= {"originMsgId": stored.message_id, "originTopic": topic, "maxReconsumeTimes": 16}
    side.ask(SEND_BACK, fields)
