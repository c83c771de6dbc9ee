"""Receipts of popped messages, the texts they are made from, and handles of recalled ones: as Java's, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.seams import wall_clock
from rocketpy.wire.catalogue.pop_info import (
    decode_message_offsets,
    decode_order_counts,
    decode_start_offsets,
    encode_message_offsets,
    encode_order_counts,
    encode_start_offsets,
    order_key,
)
from rocketpy.wire.catalogue.receipt_handle import ReceiptHandle, TopicKind, topic_kind
from rocketpy.wire.recall_handle import RecallHandle
from tests.tables import Table
from tests.wire.golden import whole_frames
from tests.wire.strategies import read

VECTORS = json.loads((Path(__file__).resolve().parent.parent / "golden" / "vectors_java.json").read_text("utf-8"))
NORMAL, V1, V2 = TopicKind


def cases(name: str) -> list[tuple[Any, Any]]:
    return [(each["input"], each["output"]) for each in VECTORS["cases"] if each["case"] == name]


def receipt(**changes: Any) -> ReceiptHandle:
    values = {
        "start_offset": 7,
        "retrieve_time": 1_795_248_002_309,
        "invisible_time": 10_000,
        "revive_queue_id": 3,
        "topic_kind": NORMAL,
        "broker_name": "golden-a",
        "queue_id": 1,
        "offset": 9,
    }
    return ReceiptHandle(**{**values, **changes})


def test_P19_receipts_are_spelled_as_javas() -> None:
    with Table() as table:
        for given_input, expected in cases("pop_extra_info"):
            with table.row(expected):
                ours = ReceiptHandle(
                    start_offset=given_input["ckQueueOffset"],
                    retrieve_time=given_input["popTime"],
                    invisible_time=given_input["invisible"],
                    revive_queue_id=given_input["reviveQid"],
                    topic_kind=topic_kind(given_input["topic"]),
                    broker_name=given_input["broker"],
                    queue_id=given_input["queueId"],
                    offset=given_input["msgQueueOffset"],
                )
                assert ours.encode() == expected
                assert ReceiptHandle.decode(expected) == ours


def test_P19_receipts_in_captured_requests() -> None:
    count = 0
    for golden in whole_frames():
        fields = golden.record["ext_fields"] or {}
        if "extraInfo" in fields and not golden.is_answer:
            found = ReceiptHandle.decode(fields["extraInfo"])
            assert found.encode() == fields["extraInfo"]
            assert (found.queue_id, found.offset) == (int(fields["queueId"]), int(fields["offset"]))
            assert found.broker_name == "golden-a"
            count += 1
    assert count >= 9


def test_P19_with_the_place_in_the_commit_log() -> None:
    whole = receipt(commit_log_offset=3000)
    assert whole.encode().endswith(" 9 3000")
    assert ReceiptHandle.decode(whole.encode()) == whole


def test_P19_expiry() -> None:
    with wall_clock(lambda: 1_795_248_012_308):
        assert not receipt().is_expired
    with wall_clock(lambda: 1_795_248_012_309):
        assert receipt().is_expired
    assert receipt().next_visible_time == 1_795_248_012_309


@pytest.mark.parametrize(("kind", "topic"), [(NORMAL, "T"), (V1, "%RETRY%G_T"), (V2, "%RETRY%G+T")])
def test_P19_the_real_topic(kind: TopicKind, topic: str) -> None:
    assert receipt(topic_kind=kind).real_topic("T", "G") == topic
    assert topic_kind(topic) is kind


def test_order_is_told_by_the_revive_queue() -> None:
    assert receipt(revive_queue_id=999).is_order
    assert not receipt().is_order


@pytest.mark.parametrize(
    "text", ["invalid_data", "", "1 2 3 4 0 b 6", "x 2 3 4 0 b 6 7", "1 2 3 4 5 b 6 7", "1 2 3 4 0 b 6 ٧", "1 " * 900]
)
def test_P19_what_is_no_receipt_is_a_typed_error(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="not the receipt"):
        ReceiptHandle.decode(text)


@given(st.text(max_size=60))
def test_threat_any_text_is_a_receipt_or_the_declared_error(text: str) -> None:
    for decode in (ReceiptHandle.decode, RecallHandle.decode, decode_start_offsets, decode_order_counts):
        read(lambda decode=decode: decode(text))


# --- what an answer says -------------------------------------------------------------------------------


def test_texts_of_java_about_an_answer() -> None:
    ((_, text),) = cases("pop_msg_offset_info")
    assert encode_message_offsets({(NORMAL, 0): [1, 2, 5], (V1, 1): [3]}) == text
    for given_text, expected in cases("pop_msg_offset_parse"):
        found = decode_message_offsets(given_text)
        assert {f"{kind.value}@{queue}": each for (kind, queue), each in found.items()} == expected
        assert encode_message_offsets(found) == given_text
    for given_text, expected in cases("pop_start_offset_parse"):
        starts = decode_start_offsets(given_text)
        assert {f"{kind.value}@{queue}": each for (kind, queue), each in starts.items()} == expected
        assert encode_start_offsets(starts) == given_text
    for given_text, expected in cases("pop_order_count_parse"):
        counts = decode_order_counts(given_text)
        assert {f"{kind.value}@{key}": each for (kind, key), each in counts.items()} == expected
        assert encode_order_counts(counts) == given_text
    assert order_key(0, 5) == "qo0%5"


def test_captured_answers_about_their_messages() -> None:
    count = 0
    for golden in whole_frames():
        fields = golden.record["ext_fields"] or {}
        if golden.is_answer and fields.get("msgOffsetInfo"):
            offsets = decode_message_offsets(fields["msgOffsetInfo"])
            assert encode_message_offsets(offsets) == fields["msgOffsetInfo"]
            assert offsets.keys() <= decode_start_offsets(fields["startOffsetInfo"]).keys()
            decode_order_counts(fields.get("orderCountInfo") or "")
            count += 1
    assert count >= 5


@pytest.mark.parametrize("text", ["1 2", "0 0 1;0 0 2", "0 a 1", "9 0 1", "0 0 x", ";"])
def test_texts_that_java_refuses(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="not what a pop answers"):
        decode_start_offsets(text)


# --- handles of recalled messages ----------------------------------------------------------------------


def test_recall_handles_of_java() -> None:
    for given_input, expected in cases("recall_handle"):
        ours = RecallHandle(
            given_input["topic"], given_input["broker"], given_input["timestamp"], given_input["messageId"]
        )
        assert ours.encode() == expected
    for text, expected in cases("recall_handle_decode"):
        if "error" in expected:
            with pytest.raises(RemoteProtocolError, match="not a handle"):
                RecallHandle.decode(text)
        else:
            assert RecallHandle.decode(text)._asdict() == {
                "topic": expected["topic"],
                "broker_name": expected["broker"],
                "timestamp": expected["timestamp"],
                "message_id": expected["messageId"],
            }


def test_recall_handles_in_captured_frames() -> None:
    handles = [
        fields["recallHandle"]
        for golden in whole_frames()
        if (fields := golden.record["ext_fields"] or {}) and "recallHandle" in fields
    ]
    assert len(handles) >= 4
    assert all(RecallHandle.decode(handle).encode() == handle for handle in handles)
    assert {RecallHandle.decode(handle).broker_name for handle in handles} == {"golden-a"}
