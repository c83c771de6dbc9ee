"""Every captured JSON body whose class is declared is read and written to the same meaning."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rocketpy.wire.bodies import groups, heartbeat, offsets, registration, route, topics
from rocketpy.wire.json_body import Body
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command
from tests.wire.golden import FILES, load, whole_frames

REQUESTS: dict[int, type[Body]] = {
    18: topics.CreateTopicListRequestBody,
    34: heartbeat.HeartbeatData,
    46: heartbeat.CheckClientRequestBody,
    103: registration.RegisterBrokerBody,
    200: groups.SubscriptionGroupConfig,
    217: route.TopicRouteData,
    225: groups.SubscriptionGroupList,
    322: topics.DataVersion,
}
ANSWERS: dict[int, type[Body]] = {
    21: registration.TopicConfigAndMappingSerializeWrapper,
    28: route.KVTable,
    38: groups.GetConsumerListByGroupResponseBody,
    43: offsets.ConsumerOffsetSerializeWrapper,
    45: offsets.DelayOffsetSerializeWrapper,
    105: route.TopicRouteData,
    106: route.ClusterInfo,
    201: groups.SubscriptionGroupWrapper,
    203: groups.ConsumerConnection,
    204: groups.ProducerConnection,
    206: topics.TopicList,
    219: route.KVTable,
    224: topics.TopicList,
    300: groups.GroupList,
    304: topics.TopicList,
    305: topics.TopicList,
    308: offsets.QueryCorrectionOffsetBody,
    311: topics.TopicList,
    312: topics.TopicList,
    313: topics.TopicList,
    322: topics.DataVersion,
    328: groups.ProducerTableInfo,
    343: topics.TopicList,
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
    "order",
    "stateVersion",
    "topicConfigSerializeWrapper",
    "topicFilterType",
    "topicQueueMappingDetailMap",
    "topicQueueMappingInfoMap",
    "topicSysFlag",
    "withoutSub",
}
# Worked out from the rest of its body, and read by nobody.
DERIVED = {"groupTopicMap"}


def check_same(theirs: Any, ours: Any, where: str) -> None:
    """The two mean the same: the order of what is a set in Java does not count, nor do defaults that only we write."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), where
        assert theirs.keys() - DERIVED <= ours.keys(), where
        assert ours.keys() - theirs.keys() <= ADDED, where
        for key in theirs.keys() - DERIVED:
            check_same(theirs[key], ours[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        scalars = all(not isinstance(item, dict | list) for item in theirs)
        assert len(theirs) == len(ours), where
        for one, other in zip(*((sorted(theirs), sorted(ours)) if scalars else (theirs, ours)), strict=True):
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
