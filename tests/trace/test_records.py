"""Trace records: what Java's encoder says, both ways."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from rocketpy.trace import TraceRecord, decode_traces
from rocketpy.trace.records import (
    FALSE,
    KINDS,
    TRUE,
    MessageType,
    end_transaction,
    found_by,
    pub,
    recall,
    sub_after,
    sub_before,
)
from tests.vectors import java_cases

COMMIT = LocalTransactionState.COMMIT
REGION, GROUP, TOPIC, KEYS, HOST = "DefaultRegion", "G", "T", "k1 k2", "127.0.0.1:10911"
MADE = {
    "Pub": lambda: pub(1111, REGION, GROUP, TOPIC, "M1", "TagA", KEYS, HOST, 10, 5, "0", "OFF", TRUE),
    "SubBefore": lambda: sub_before(1111, REGION, GROUP, "REQ", "M1", 1, KEYS),
    "SubAfter": lambda: sub_after("REQ", "M1", 5, KEYS, 0, 1111, GROUP, success=True),
    "EndTransaction": lambda: end_transaction(
        1111, REGION, GROUP, TOPIC, "M1", "TagA", KEYS, HOST, MessageType.NORMAL, "TX", COMMIT, from_check=False
    ),
    "Recall": lambda: recall(1111, REGION, GROUP, TOPIC, "M1", success=True),
}
READ: dict[str, dict[str, Any]] = {
    "Pub": {
        "topic": TOPIC,
        "tags": "TagA",
        "keys": KEYS,
        "store_host": HOST,
        "body_length": 10,
        "cost": 5,
        "message_type": MessageType.NORMAL,
        "offset_message_id": "OFF",
        "success": True,
        "region": REGION,
    },
    "SubBefore": {"request_id": "REQ", "retry_times": 1, "keys": KEYS, "region": REGION},
    "SubAfter": {"request_id": "REQ", "cost": 5, "keys": KEYS, "context_code": 0, "success": True},
    "EndTransaction": {
        "topic": TOPIC,
        "tags": "TagA",
        "keys": KEYS,
        "store_host": HOST,
        "message_type": MessageType.NORMAL,
        "transaction_id": "TX",
        "transaction_state": COMMIT,
        "from_check": False,
        "region": REGION,
    },
    "Recall": {"topic": TOPIC, "success": True, "region": REGION},
}


@pytest.mark.parametrize("kind", MADE)
def test_Q4_records_are_javas_byte_for_byte_and_read_back(kind: str) -> None:
    (output,) = [said for given, said in java_cases("trace_encode") if given["type"] == kind]
    assert MADE[kind]().encode().hex() == output["dataHex"]
    assert found_by("M1", KEYS).split(" ") == output["keys"]
    expected = TraceRecord(kind=kind, message_id="M1", timestamp=1111, group=GROUP, **READ[kind])
    assert decode_traces(bytes.fromhex(output["dataHex"])) == [expected]


def test_what_is_missing_is_javas_null_and_none_again() -> None:
    text = pub(1, REGION, GROUP, TOPIC, "M", None, None, HOST, 1, 0, KINDS[MessageType.DELAY], None, FALSE)
    assert text == f"Pub\x011\x01{REGION}\x01G\x01T\x01M\x01null\x01null\x01{HOST}\x011\x010\x013\x01null\x01false\x02"
    (read,) = decode_traces(text.encode())
    assert (read.tags, read.keys, read.offset_message_id, read.success) == (None, None, None, False)


def test_older_and_longer_forms_are_read_and_unknown_kinds_left_out() -> None:
    head = f"Pub\x011\x01{REGION}\x01G\x01T\x01M\x01\x01k\x01{HOST}\x011\x010\x010\x01"
    oldest, longest = f"{head}true\x02", f"{head}OFF\x01false\x01127.0.0.1@client\x02"
    shortest = "SubAfter\x01R\x01M\x015\x01true\x01k\x02"
    first, second, third = decode_traces(f"Later\x01x\x02{oldest}{longest}{shortest}".encode())
    assert (first.success, first.offset_message_id, first.client_host) == (True, None, None)
    assert (second.success, second.offset_message_id, second.client_host) == (False, "OFF", "127.0.0.1@client")
    assert (third.context_code, third.timestamp, third.success) == (None, None, True)


NAMES = st.sampled_from(["Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall", "x"])
FIELDS = st.one_of(st.text(max_size=5), st.integers().map(str), st.just("true"))
LINES = st.lists(st.tuples(NAMES, st.lists(FIELDS, max_size=16)))


def joined(lines: list[tuple[str, list[str]]]) -> bytes:
    return "\x02".join("\x01".join([kind, *fields]) for kind, fields in lines).encode("utf-8", "replace")


@given(st.one_of(st.binary(), LINES.map(joined)))
def test_anything_else_raises_only_what_is_declared(body: bytes) -> None:
    with suppress(MessageDecodeError):
        decode_traces(body)


@pytest.mark.parametrize("wrong", ["text", None, Message("T", b"x")], ids=["text", "None", "message"])
def test_a_trace_is_read_from_the_body_of_a_message(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes bytes, the body of a message \(message\.body\), not"):
        decode_traces(wrong)
