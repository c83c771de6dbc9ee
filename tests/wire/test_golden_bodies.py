"""Every captured JSON body whose class is declared is read and written to the same meaning."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.bodies import (
    groups,
    heartbeat,
    locks,
    offsets,
    registration,
    route,
    running,
    stats,
    topics,
)
from rocketpy.wire.json_body import Body
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command
from tests.wire.golden import FILES, load, whole_frames
from tests.wire.strategies import read

REQUESTS: dict[int, type[Body]] = {
    18: topics.CreateTopicListRequestBody,
    34: heartbeat.HeartbeatData,
    41: locks.LockBatchRequestBody,
    42: locks.UnlockBatchRequestBody,
    46: heartbeat.CheckClientRequestBody,
    103: registration.RegisterBrokerBody,
    200: groups.SubscriptionGroupConfig,
    217: route.TopicRouteData,
    220: offsets.ResetOffsetBody,
    225: groups.SubscriptionGroupList,
    322: topics.DataVersion,
}
ANSWERS: dict[int, type[Body]] = {
    21: registration.TopicConfigAndMappingSerializeWrapper,
    28: route.KVTable,
    38: groups.GetConsumerListByGroupResponseBody,
    41: locks.LockBatchResponseBody,
    43: offsets.ConsumerOffsetSerializeWrapper,
    45: offsets.DelayOffsetSerializeWrapper,
    105: route.TopicRouteData,
    106: route.ClusterInfo,
    201: groups.SubscriptionGroupWrapper,
    202: stats.TopicStatsTable,
    203: groups.ConsumerConnection,
    204: groups.ProducerConnection,
    206: topics.TopicList,
    208: stats.ConsumeStats,
    219: route.KVTable,
    221: offsets.GetConsumerStatusBody,
    222: offsets.ResetOffsetBody,
    223: offsets.GetConsumerStatusBody,
    224: topics.TopicList,
    300: groups.GroupList,
    303: stats.QueryConsumeTimeSpanBody,
    304: topics.TopicList,
    305: topics.TopicList,
    307: running.ConsumerRunningInfo,
    308: offsets.QueryCorrectionOffsetBody,
    309: running.ConsumeMessageDirectlyResult,
    311: topics.TopicList,
    312: topics.TopicList,
    313: topics.TopicList,
    315: stats.BrokerStatsData,
    317: stats.ConsumeStatsList,
    322: topics.DataVersion,
    328: groups.ProducerTableInfo,
    343: topics.TopicList,
    345: groups.QuerySubscriptionResponseBody,
    351: topics.TopicConfig,
    352: groups.SubscriptionGroupConfig,
    353: groups.GroupForbidden,
    901: route.GetBrokerMemberGroupResponseBody,
}

# What peers of 4.x (and hand-made requests) leave out, and we say with the value that its absence means.
ADDED = {
    "attributes",
    "consumeMessageOrderly",
    "consumeTimeoutMinute",
    "enableActingMaster",
    "filterServerList",
    "forbiddenTable",
    "groupRetryPolicy",
    "groupSysFlag",
    "heartbeatFingerprint",
    "mappingDataVersion",
    "mqPopTable",
    "onlyThisBroker",
    "order",
    "pullOffset",
    "stateVersion",
    "topicConfigSerializeWrapper",
    "topicFilterType",
    "topicPutTps",
    "topicQueueMappingDetailMap",
    "topicQueueMappingInfoMap",
    "topicSysFlag",
    "totalInflightDiff",
    "userConsumerInfo",
    "withoutSub",
}
# Worked out from the rest of its body, and read by nobody.
DERIVED = {"groupTopicMap"}
# Sets in Java, in the order of a hash table.
SETS = {"codeSet", "groupList", "lockOKMQSet", "mqSet", "tagsSet", "topicList"}


def check_same(theirs: Any, ours: Any, where: str) -> None:
    """The two mean the same: the order of what is a set in Java does not count, nor do defaults that only we write."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), where
        assert theirs.keys() - DERIVED <= ours.keys(), where
        assert ours.keys() - theirs.keys() <= ADDED, where
        for key in theirs.keys() - DERIVED:
            check_same(theirs[key], ours[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(theirs) == len(ours), where
        if where.rpartition(".")[2] in SETS:
            theirs, ours = sorted(theirs, key=json.dumps), sorted(ours, key=json.dumps)
        for one, other in zip(theirs, ours, strict=True):
            check_same(one, other, where)
    else:
        assert theirs == ours, where
        assert type(theirs) is type(ours), where


@pytest.mark.parametrize("file", FILES)
def test_every_declared_body_there_and_back(file: str) -> None:
    for golden in load(file):
        kind = (ANSWERS if golden.is_answer else REQUESTS).get(golden.request_code or -1)
        if kind is None or golden.is_cut:
            continue
        data = decode_command(golden.frame()).body
        if data:
            found = kind.decode(data)
            check_same(parse_json(data), parse_json(found.encode()), f"{file} {golden}")
            assert kind.decode(found.encode(browser_compatible=True)) == found, f"{file} {golden}"


def test_every_declared_body_was_met() -> None:
    """No line of the two tables is idle."""
    met = Counter(
        (golden.request_code, golden.is_answer)
        for golden in whole_frames()
        if golden.record["body_len"] and not (golden.is_answer and golden.record["code"])
    )
    idle = {code for code in REQUESTS if not met[code, False]} | {code for code in ANSWERS if not met[code, True]}
    assert idle == set()


def captured_bodies() -> list[tuple[type[Body], bytes]]:
    """One body for each line of the two tables."""
    found: dict[tuple[int | None, bool], tuple[type[Body], bytes]] = {}
    for golden in whole_frames():
        kind = (ANSWERS if golden.is_answer else REQUESTS).get(golden.request_code or -1)
        if kind is not None and golden.record["body_len"]:
            found.setdefault((golden.request_code, golden.is_answer), (kind, golden.frame().body))
    return list(found.values())


@given(st.sampled_from(captured_bodies()), st.data())
def test_damaged_bodies_are_a_body_or_the_declared_error(
    captured: tuple[type[Body], bytes], data: st.DataObject
) -> None:
    kind, whole = captured
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged)))
        piece = data.draw(
            st.sampled_from([b"", b"{", b"}", b"[", b"]", b":", b",", b'"', b"0", b"-", b"null", b"\xff"])
        )
        damaged[at : at + data.draw(st.integers(0, 3))] = piece
    found = read(lambda: kind.decode(bytes(damaged)))
    if found is not None:
        assert kind.decode(found.encode()) == found


def test_defaults_of_a_retry_policy() -> None:
    delays = groups.CustomizedRetryPolicy().next
    assert (len(delays), delays[0], delays[-1]) == (18, 1000, 7_200_000)
