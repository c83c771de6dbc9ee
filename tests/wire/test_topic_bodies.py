"""Topics and their registration: the text form, the compressed form, versions."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.registration import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigSerializeWrapper, TopicQueueMappingInfo
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import decode_command
from tests.wire.golden import FOLDER, whole_frames
from tests.wire.strategies import INT32, NAME, TEXT, read

VECTORS: list[dict[str, Any]] = json.loads((FOLDER.parent / "vectors_java.json").read_text("utf-8"))["cases"]
OLD, NEW = 407, 479

TOPICS = st.builds(
    TopicConfig,
    topic_name=NAME,
    read_queue_nums=INT32,
    write_queue_nums=INT32,
    perm=st.integers(0, 7),
    topic_filter_type=st.sampled_from(TopicFilterType),
    attributes=st.dictionaries(TEXT, TEXT, max_size=3),
)
VERSIONS = st.builds(
    DataVersion, state_version=st.integers(0, 9), timestamp=st.integers(0, 2**41), counter=st.integers(0, 99)
)


@st.composite
def registrations(draw: st.DrawFn) -> RegisterBrokerBody:
    topics = draw(st.lists(TOPICS, max_size=4, unique_by=lambda topic: topic.topic_name))
    mappings = draw(st.lists(NAME, max_size=2, unique=True))
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={topic.topic_name: topic for topic in topics},
        topic_queue_mapping_info_map={
            name: TopicQueueMappingInfo(topic=name, bname="b", total_queues=2, curr_id_map={0: 1}) for name in mappings
        },
        data_version=draw(VERSIONS),
    )
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=wrapper, filter_server_list=draw(st.lists(TEXT, max_size=2))
    )


# --- topic settings ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in VECTORS if case["case"] == "topic_config_text"], ids=str)
def test_A3_text_form_as_java_writes_it(case: dict[str, Any]) -> None:
    given_ = case["input"]
    topic = TopicConfig(
        topic_name=given_["topic"],
        read_queue_nums=given_["read"],
        write_queue_nums=given_["write"],
        perm=given_["perm"],
        attributes=given_.get("attributes", {}),
    )
    assert topic.to_text() == case["output"]


@pytest.mark.parametrize("case", [case for case in VECTORS if case["case"] == "topic_config_parse"], ids=str)
def test_A3_text_form_and_older_ones_as_java_reads_them(case: dict[str, Any]) -> None:
    expected = case["output"]
    if not expected["ok"]:
        with pytest.raises(RemoteProtocolError, match="text form"):
            TopicConfig.from_text(case["input"])
        return
    assert TopicConfig.from_text(case["input"]) == TopicConfig(
        topic_name=expected["topicName"],
        read_queue_nums=expected["read"],
        write_queue_nums=expected["write"],
        perm=expected["perm"],
        topic_filter_type=TopicFilterType[expected["filter"]],
        attributes=expected["attributes"],
    )


@pytest.mark.parametrize(
    "text", ["", "T", "T 1 1 6", "T a 1 6 SINGLE_TAG", "T 1 1 6 NO_TAG {}", "T 1 1 6 SINGLE_TAG {"]
)
def test_A3_what_is_no_text_form(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        TopicConfig.from_text(text)


@given(TOPICS)
def test_A3_text_form_there_and_back(topic: TopicConfig) -> None:
    assert TopicConfig.from_text(topic.to_text()) == topic


@given(TOPICS, INT32, st.booleans())
def test_A3_json_there_and_back(topic: TopicConfig, sys_flag: int, order: bool) -> None:
    topic.topic_sys_flag, topic.order = sys_flag, order
    assert TopicConfig.decode(topic.encode()) == topic


def test_A3_json_of_older_peers() -> None:
    data = (
        b'{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T","writeQueueNums":8}'
    )
    assert TopicConfig.decode(data) == TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8)


# --- registration ----------------------------------------------------------------------------------------------


@given(registrations())
def test_compressed_there_and_back(sent: RegisterBrokerBody) -> None:
    for compressed in (True, False):
        found = RegisterBrokerBody.decode_any(sent.encode_compressed(), version=NEW, compressed=compressed)
        found.topic_config_serialize_wrapper.mapping_data_version = (
            sent.topic_config_serialize_wrapper.mapping_data_version
        )
        assert found == sent


@given(registrations())
def test_plain_there_and_back(sent: RegisterBrokerBody) -> None:
    assert RegisterBrokerBody.decode_any(sent.encode(), version=NEW) == sent


def test_older_senders_have_no_mappings() -> None:
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={"T": TopicConfig(topic_name="T")},
        topic_queue_mapping_info_map={"T": TopicQueueMappingInfo(topic="T")},
    )
    data = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode_compressed()
    found = RegisterBrokerBody.decode_any(data, version=OLD, compressed=True).topic_config_serialize_wrapper
    assert (list(found.topic_config_table), found.topic_queue_mapping_info_map) == (["T"], {})
    without = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper())
    plain = zlib.decompress(without.encode_compressed())
    older = zlib.compress(plain[:-4])  # no count of mappings at the end
    assert RegisterBrokerBody.decode_any(older, version=OLD, compressed=True).filter_server_list == []
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode_any(older, version=NEW, compressed=True)


def test_no_body_registers_no_topics() -> None:
    found = RegisterBrokerBody.decode_any(b"", version=NEW)
    assert found.topic_config_serialize_wrapper.topic_config_table == {}


def test_captured_registrations() -> None:
    seen = 0
    for golden in whole_frames():
        if golden.request_code == 103 and not golden.is_answer:
            command = decode_command(golden.frame())
            found = RegisterBrokerBody.decode_any(command.body, version=command.version)
            seen += 1
            for name, topic in found.topic_config_serialize_wrapper.topic_config_table.items():
                assert topic.topic_name == name
    assert seen > 20


@pytest.mark.parametrize("count", [-1, 2**31 - 1, 1000])
def test_lengths_are_checked_against_what_is_left(count: int) -> None:
    version = DataVersion().encode()
    lead = struct.pack(">i", len(version)) + version
    for plain in (struct.pack(">i", count), lead + struct.pack(">i", count), lead[:-1], b"", lead):
        with pytest.raises(RemoteProtocolError):
            RegisterBrokerBody.decode_any(zlib.compress(plain), version=NEW, compressed=True)


def test_inflated_size_is_bounded() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    with pytest.raises(RemoteProtocolError, match="limit"):
        RegisterBrokerBody.decode_any(bomb, version=NEW, compressed=True, limits=WireLimits(max_inflated=100_000))


@pytest.mark.parametrize("damaged", [b"x", b"x\x9c" + bytes(20), b"xyz"])
def test_what_only_starts_like_a_compressed_body(damaged: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="RegisterBrokerBody"):
        RegisterBrokerBody.decode_any(damaged, version=NEW)


def test_no_more_topics_than_the_limit() -> None:
    version = DataVersion().encode()
    plain = struct.pack(">i", len(version)) + version + struct.pack(">i", 200) + bytes(1000)
    with pytest.raises(RemoteProtocolError, match="200 entries"):
        RegisterBrokerBody.decode_any(zlib.compress(plain), version=NEW, limits=WireLimits(max_body_members=100))


@given(registrations(), st.data())
def test_damaged_registrations_are_a_body_or_the_declared_error(sent: RegisterBrokerBody, data: st.DataObject) -> None:
    whole = sent.encode_compressed()
    plain = zlib.decompress(whole)
    at = data.draw(st.integers(0, len(plain) - 1))
    damaged = zlib.compress(plain[:at] + data.draw(st.binary(max_size=4)) + plain[at + data.draw(st.integers(0, 4)) :])
    read(lambda: RegisterBrokerBody.decode_any(damaged, version=NEW, compressed=True))
    read(lambda: RegisterBrokerBody.decode_any(whole[: at % len(whole)], version=NEW, compressed=True))


# --- versions --------------------------------------------------------------------------------------------------


def test_a_change_counts_and_takes_the_time() -> None:
    with wall_clock(lambda: 5000):
        first = DataVersion()
    with wall_clock(lambda: 6000):
        second = first.next_version()
        third = second.next_version(state_version=4)
    assert (first.timestamp, first.counter) == (5000, 0)
    assert second == DataVersion(timestamp=6000, counter=1)
    assert third == DataVersion(timestamp=6000, counter=2, state_version=4)
    assert TopicConfigSerializeWrapper().data_version.counter == 0
