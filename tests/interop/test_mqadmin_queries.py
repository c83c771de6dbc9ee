"""Apache's command `mqadmin` finds messages that our broker stored: by id, by key and by unique key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message, decode_unique_id
from tests.interop.mixed import OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy import SendResult
    from tests.interop.apache import Apache
    from tests.interop.drivers import JavaAdmin
    from tests.interop.mixed import Mixed

pytestmark = pytest.mark.interop


@pytest.fixture
def admin(admin_at: Callable[[str], JavaAdmin], mixed: Mixed) -> JavaAdmin:
    return admin_at(mixed.our_namesrv)


@pytest.fixture
def topic(mixed: Mixed, fresh_name: Callable[[str], str]) -> str:
    name = fresh_name("Queried")
    mixed.create_topic(name)
    return name


def sent(mixed: Mixed, messages: list[Message]) -> list[SendResult]:
    """Send to a queue of our broker."""
    with rocketpy.sync.Producer("queried", namesrv=mixed.our_namesrv, send_timeout=10.0) as producer:
        queue = next(each for each in producer.queues(messages[0].topic) if each.broker_name == OURS)
        return [producer.send(message, queue=queue) for message in messages]


def shown(printed: str) -> dict[str, str]:
    """What is printed of a message, by its label."""
    return {name: value.strip() for name, value in re.findall(r"^([A-Z][A-Za-z ]+):\s+(.*)$", printed, re.MULTILINE)}


def test_mqadmin_shows_a_message_of_our_broker_by_its_ids(
    apache: Apache, mixed: Mixed, admin: JavaAdmin, topic: str
) -> None:
    results = sent(mixed, [Message(topic, b"body %d" % n, keys=[f"order-{n}"], tags="red") for n in range(3)])
    one = results[1]
    by_topic = {"t": topic} if apache.version.startswith("5.") else {}
    printed = {
        "id": admin.mqadmin("queryMsgById", n=mixed.our_namesrv, i=one.offset_message_id, **by_topic),
        "unique key": admin.mqadmin("queryMsgByUniqueKey", n=mixed.our_namesrv, t=topic, i=one.message_id),
    }
    for how, text in printed.items():
        fields = shown(text)
        assert fields["Topic"] == topic, (how, text)
        assert (fields["Keys"], fields["Tags"]) == ("[order-1]", "[red]")
        assert (fields["Queue ID"], fields["Queue Offset"]) == (str(one.queue.queue_id), str(one.queue_offset))
        assert fields["Store Host"] == mixed.our_broker
        assert f"UNIQ_KEY={one.message_id}" in fields["Properties"]
    assert shown(printed["id"])["OffsetID"] == one.offset_message_id
    assert decode_unique_id(one.message_id).ip


def test_mqadmin_lists_the_messages_of_our_broker_with_a_key(mixed: Mixed, admin: JavaAdmin, topic: str) -> None:
    results = sent(mixed, [Message(topic, b"%d" % n, keys=["Aa" if n % 2 else "BB", f"k{n}"]) for n in range(6)])
    printed = admin.mqadmin("queryMsgByKey", n=mixed.our_namesrv, t=topic, k="Aa")
    listed = {line.split()[0] for line in printed.splitlines() if len(line.split()) == 3 and "#" not in line}
    # The hashes of "Aa" and "BB" are equal: the client looks at the keys once more.
    assert listed == {result.message_id for result in results[1::2]}, printed
    printed = admin.mqadmin("queryMsgByKey", n=mixed.our_namesrv, t=topic, k="k4")
    assert results[4].message_id in printed
    assert results[3].message_id not in printed


def test_mqadmin_is_told_of_what_is_not_there(apache: Apache, mixed: Mixed, admin: JavaAdmin, topic: str) -> None:
    (result,) = sent(mixed, [Message(topic, b"x")])
    missing = result.message_id[:-4] + "FFFF"
    printed = admin.mqadmin("queryMsgByKey", n=mixed.our_namesrv, t=topic, k="nobody")
    assert missing not in printed
    assert result.message_id not in printed
    by_topic = {"t": topic} if apache.version.startswith("5.") else {}
    wrong = f"{result.offset_message_id[:-16]}{0x7FFFFFFF:016X}"
    printed = admin.mqadmin("queryMsgById", n=mixed.our_namesrv, i=wrong, **by_topic)
    assert "Topic:" not in printed
