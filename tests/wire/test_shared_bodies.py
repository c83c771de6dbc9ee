"""Bodies that parties compare, sort and hand on: data versions, subscriptions, the queues of static topics."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.groups import ConsumerConnection
from rocketpy.wire.bodies.route import TopicRouteData
from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.bodies.subscription import SubscriptionData, build
from rocketpy.wire.bodies.topics import (
    DataVersion,
    LogicQueueMappingItem,
    TopicConfig,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
)
from rocketpy.wire.catalogue.bodies.pop import BatchAck, BatchAckMessageRequestBody, PopCheckPoint, bits_of, indices_of
from rocketpy.wire.catalogue.bodies.static_topic import TopicConfigAndQueueMapping, TopicRemappingDetailWrapper
from rocketpy.wire.lenient_json import parse_json

# --- data versions -------------------------------------------------------------------------------------


def test_P9_equal_when_time_counter_and_state_are() -> None:
    one = DataVersion(state_version=1, timestamp=2, counter=3)
    assert one == DataVersion(state_version=1, timestamp=2, counter=3)
    for other in (
        DataVersion(state_version=9, timestamp=2, counter=3),
        DataVersion(state_version=1, timestamp=9, counter=3),
        DataVersion(state_version=1, timestamp=2, counter=9),
        None,
        "1 2 3",
    ):
        assert one != other


def test_P9_a_member_that_is_null_or_missing_reads_as_none_was_counted() -> None:
    assert DataVersion.decode(b'{"counter":null,"timestamp":2}') == DataVersion(timestamp=2, counter=0)
    assert DataVersion.decode(b'{"timestamp":2}') == DataVersion(timestamp=2, counter=0, state_version=0)
    with pytest.raises(RemoteProtocolError):
        DataVersion.decode(b"null")


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_P9_there_and_back(state: int, timestamp: int, counter: int) -> None:
    version = DataVersion(state_version=state, timestamp=timestamp, counter=counter)
    assert version.encode() == b'{"counter":%d,"stateVersion":%d,"timestamp":%d}' % (counter, state, timestamp)
    assert DataVersion.decode(version.encode()) == version


# --- subscriptions -------------------------------------------------------------------------------------


def subscribed(topic: str, expression: str, version: int = 1) -> SubscriptionData:
    data = build(topic, expression)
    data.sub_version = version
    return data


def test_P10_equality_and_hash_code() -> None:
    one, same = subscribed("T", "a || b"), subscribed("T", "a || b")
    assert (one, hash(one)) == (same, hash(same))
    assert {one, same} == {one}
    newer = subscribed("T", "a || b", version=2)
    assert newer != one
    assert hash(newer) == hash(one), "the version does not count for it, as in Java"
    for other in (subscribed("U", "a || b"), subscribed("T", "a"), build("T", "a = 1", expression_type="SQL92"), None):
        assert one != other


def test_P10_order_is_that_of_topic_and_expression() -> None:
    data = [subscribed("T", "b"), subscribed("S", "c"), subscribed("T", "*"), subscribed("T", "a")]
    assert [f"{each.topic}@{each.sub_string}" for each in sorted(data)] == ["S@c", "T@*", "T@a", "T@b"]
    assert not subscribed("T", "*") < subscribed("T", "*", version=2)


def test_P10_json() -> None:
    data = subscribed("T", "a")
    assert json.loads(data.encode()) == {
        "classFilterMode": False,
        "codeSet": [97],
        "expressionType": "TAG",
        "subString": "a",
        "subVersion": 1,
        "tagsSet": ["a"],
        "topic": "T",
    }
    assert SubscriptionData.decode(data.encode()) == data
    java = b'{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","filterClassSource":"x","subString":"*",'
    assert SubscriptionData.decode(java + b'"subVersion":1,"tagsSet":[],"topic":"T"}') == subscribed("T", "*")


# --- static topics -------------------------------------------------------------------------------------

ITEM = LogicQueueMappingItem(
    gen=1,
    queue_id=2,
    bname="broker01",
    logic_offset=33333333333333333,
    start_offset=44444444444444444,
    end_offset=55555555555555555,
    time_of_start=66666666666666666,
    time_of_end=77777777777777777,
)
DETAIL = TopicQueueMappingDetail(
    topic="Static", total_queues=2, bname="broker01", epoch=4, curr_id_map={0: 1}, hosted_queues={0: [ITEM], 1: []}
)


def test_P11_an_item_of_a_queue() -> None:
    assert json.loads(ITEM.encode()) == {
        "bname": "broker01",
        "endOffset": 55555555555555555,
        "gen": 1,
        "logicOffset": 33333333333333333,
        "queueId": 2,
        "startOffset": 44444444444444444,
        "timeOfEnd": 77777777777777777,
        "timeOfStart": 66666666666666666,
    }
    assert LogicQueueMappingItem.decode(ITEM.encode()) == ITEM


def test_P11_the_queues_of_a_topic_with_numbers_for_keys() -> None:
    assert b'"currIdMap":{0:1}' in DETAIL.encode(), "as fastjson writes it"
    assert b'"hostedQueues":{0:[' in DETAIL.encode()
    assert b'"currIdMap":{"0":1}' in DETAIL.encode(browser_compatible=True)
    assert TopicQueueMappingDetail.decode(DETAIL.encode()) == DETAIL
    assert TopicQueueMappingDetail.decode(DETAIL.encode(browser_compatible=True)) == DETAIL
    info = TopicQueueMappingInfo.decode(DETAIL.encode())
    assert (info.topic, info.total_queues, info.curr_id_map, info.scope) == ("Static", 2, {0: 1}, "__global__")


def test_P11_with_the_settings_of_the_topic() -> None:
    whole = TopicConfigAndQueueMapping(topic_name="Static", read_queue_nums=2, mapping_detail=DETAIL)
    assert TopicConfigAndQueueMapping.decode(whole.encode()) == whole
    assert TopicConfig.decode(whole.encode()) == TopicConfig(topic_name="Static", read_queue_nums=2)
    plain = TopicConfigAndQueueMapping.decode(TopicConfig(topic_name="T").encode())
    assert plain.mapping_detail is None
    wrapper = TopicRemappingDetailWrapper(
        topic="Static", type="REMAPPING", epoch=5, broker_config_map={"broker01": whole}, broker_to_map_in={"b"}
    )
    assert TopicRemappingDetailWrapper.decode(wrapper.encode()) == wrapper


def test_P11_in_a_route() -> None:
    info = TopicQueueMappingInfo(topic="Static", total_queues=2, bname="broker01", epoch=4, curr_id_map={0: 1})
    route = TopicRouteData(topic_queue_mapping_by_broker={"broker01": info})
    assert TopicRouteData.decode(route.encode()) == route


# --- pop -----------------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 200)))
def test_bits_as_java_writes_them(indices: set[int]) -> None:
    assert indices_of(bits_of(indices)) == indices
    assert bits_of({0}) == b"\x01"
    assert bits_of({9}) == b"\x00\x02"


def test_threat_M1_a_set_of_bits_takes_no_endless_memory() -> None:
    assert indices_of(bytes(8191) + b"\x80") == {65_535}
    with pytest.raises(RemoteProtocolError, match="65536"):
        indices_of(bytes(8193))


def test_batches_of_acknowledgements_under_either_name() -> None:
    ack = BatchAck(
        consumer_group="G", topic="T", retry="0", start_offset=5, queue_id=1, revive_queue_id=2, bit_set=b"\x06"
    )
    body = BatchAckMessageRequestBody(broker_name="b", acks=[ack])
    assert b'"b":"Bg=="' in body.encode()
    assert BatchAckMessageRequestBody.decode(body.encode()) == body
    long = (
        b'{"consumerGroup":"G","topic":"T","retry":"0","startOffset":5,"queueId":1,"reviveQueueId":2,"bitSet":"Bg=="}'
    )
    assert BatchAck.decode(long) == ack


def test_a_check_point_in_java_s_short_names() -> None:
    point = PopCheckPoint(start_offset=1, pop_time=2, invisible_time=3, bit_map=4, num=5, topic="T", consumer_group="G")
    assert set(parse_json(point.encode())) == {"bm", "c", "it", "n", "pt", "q", "reviveTime", "ro", "so", "t"}
    assert PopCheckPoint.decode(point.encode()) == point


# --- bodies that hold subscriptions --------------------------------------------------------------------


def test_P8_connections_and_running_information_with_their_subscriptions() -> None:
    data = subscribed("T", "a")
    connection = ConsumerConnection(subscription_table={"T": data})
    assert ConsumerConnection.decode(connection.encode()).subscription_table == {"T": data}
    info = ConsumerRunningInfo(subscription_set=[data])
    assert ConsumerRunningInfo.decode(info.encode()).subscription_set == [data]
