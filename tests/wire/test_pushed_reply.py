"""Replies as Apache's brokers push them become messages."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from rocketpy.errors import MessageDecodeError
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.send import ReplyMessageRequestHeader
from rocketpy.wire.pushed_reply import pushed_reply
from rocketpy.wire.serialize import decode_command
from tests.wire.golden import whole_frames


def header(**changes: Any) -> ReplyMessageRequestHeader:
    values: dict[str, Any] = {
        "producer_group": "p",
        "topic": "c1_REPLY_TOPIC",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 3,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 7,
        "properties": "CORRELATION_ID\x01id\x02KEYS\x01a b\x02",
        "born_host": "10.0.0.1:1234",
        "store_host": "[::1]:10911",
        "store_timestamp": 6,
    }
    return ReplyMessageRequestHeader(**values | changes)


def test_S18_replies_of_apaches_brokers_become_messages() -> None:
    frames = [
        each
        for each in whole_frames()
        if each.request_code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT and not each.is_answer
    ]
    assert len(frames) >= 10
    for golden in frames:
        command = decode_command(golden.frame())
        message = pushed_reply(ReplyMessageRequestHeader.from_ext(command.ext_fields), command.body, arrived=99)
        fields = golden.record["ext_fields"]
        assert message.topic == fields["topic"] == "GoldenCluster_REPLY_TOPIC"
        assert message.born_host == fields["bornHost"]
        assert message.store_host == fields["storeHost"]
        assert message.store_timestamp == int(fields["storeTimestamp"])
        assert message.wire_properties["MSG_TYPE"] == "reply"
        assert message.wire_properties["ARRIVE_TIME"] == "99"
        assert message.body == command.body
        assert len(message.message_id) in (32, 56)


def test_S18_all_that_was_pushed_is_there() -> None:
    message = pushed_reply(header(reconsume_times=2), b"body", arrived=1)
    assert (message.queue_id, message.flag, message.born_timestamp, message.store_timestamp) == (3, 7, 5, 6)
    assert (message.born_host, message.store_host) == ("10.0.0.1:1234", "[::1]:10911")
    assert (message.keys, message.reconsume_times, message.body) == (("a", "b"), 2, b"body")


def test_S18_a_body_that_is_compressed_is_unpacked_on_first_use() -> None:
    packed = zlib.compress(b"x" * 5000)
    assert pushed_reply(header(sys_flag=0x301), packed, arrived=1).body == b"x" * 5000
    broken = pushed_reply(header(sys_flag=0x301), b"no zlib", arrived=1)
    assert broken.wire_properties["CORRELATION_ID"] == "id"
    with pytest.raises(MessageDecodeError, match="cannot be unpacked"):
        _ = broken.body


def test_S18_hosts_that_are_no_addresses_are_left_out() -> None:
    message = pushed_reply(header(born_host="memory", store_host="broker.local:1"), b"x", arrived=1)
    assert message.born_host == message.store_host == "0.0.0.0:0"
