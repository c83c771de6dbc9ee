"""What Apache's admin client asked Apache's broker, asked of ours: the same codes, the same bodies."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.lenient_json import parse_json
from tests.broker_sim.broker.kit import broker_and_client
from tests.json_shape import shape

WIRE = Path(__file__).parents[2] / "golden" / "wire" / "5.3.3-json"
CHANGES = {
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_BROKER_CONFIG,
}
SAME_BODY = {RequestCode.GET_TOPIC_CONFIG, RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN}
SAME_MEMBERS = {
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
}
NOT_OURS = b"fileReservedTime"
"""How long messages are kept cannot be changed by request here."""


def exchanges(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Requests of a scenario with their answers."""
    frames = [json.loads(line) for line in (WIRE / f"{name}.jsonl").read_text("utf-8").splitlines()]
    asked = {(each["conn"], each["opaque"]): each for each in frames if each["kind"] == "request"}
    return [
        (asked[each["conn"], each["opaque"]], each)
        for each in frames
        if each["kind"] == "response" and "frame_b64" in each and (each["conn"], each["opaque"]) in asked
    ]


def body_of(frame: dict[str, Any]) -> bytes:
    return base64.b64decode(frame["frame_b64"])[-frame["body_len"] :] if frame["body_len"] else b""


async def test_A1_A4_A9_the_answers_to_apaches_admin_client_are_apaches(autojump_clock: MockClock) -> None:
    compared = set()
    async with broker_and_client(broker_cluster_name="GoldenCluster", broker_name="golden-a") as (_, client):
        for asked, theirs in [*exchanges("admin_boot"), *exchanges("admin_topics")]:
            code, body = RequestCode(asked["code"]), body_of(asked)
            if code not in CHANGES | SAME_BODY | SAME_MEMBERS or NOT_OURS in body:
                continue
            ours = await client.ask(code, dict(asked["ext_fields"] or {}), body)
            assert ours.code == theirs["code"], (code.name, asked["ext_fields"], ours.remark)
            if code in SAME_BODY:
                assert parse_json(ours.body) == parse_json(body_of(theirs))
            elif code in SAME_MEMBERS:
                assert parse_json(body_of(theirs)).keys() <= parse_json(ours.body).keys()
            compared.add(code)
    assert compared == CHANGES | SAME_BODY | SAME_MEMBERS


LOOKED_AT = {
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.QUERY_TOPICS_BY_CONSUMER,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.QUERY_CONSUME_QUEUE,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.VIEW_BROKER_STATS_DATA,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.GET_BROKER_HA_STATUS,
    RequestCode.RESET_MASTER_FLUSH_OFFSET,
    RequestCode.GET_BROKER_EPOCH_CACHE,
}
"""What an administrator looks at when there are messages, producers and consumers."""


async def test_A7_A8_what_is_told_has_the_shape_that_apaches_broker_gives_it(autojump_clock: MockClock) -> None:
    compared = set()
    async with broker_and_client(broker_cluster_name="GoldenCluster", broker_name="golden-a") as (_, client):
        await client.heartbeat("CG_AC", "GT_A", producer="PG_AC")
        for topic in ("GT_A", "GT_TAG"):
            for number in range(8):
                await client.send(topic, queue_id=number % 4 if topic == "GT_A" else 0, properties="TAGS\x01A\x02")
        fields = {"consumerGroup": "CG_AC", "topic": "GT_A", "queueId": "0", "commitOffset": "1"}
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        for asked, theirs in [*exchanges("admin_topics"), *exchanges("admin_consumer")]:
            if asked["code"] not in LOOKED_AT or asked["code"] in compared:
                continue
            ours = await client.ask(asked["code"], dict(asked["ext_fields"] or {}))
            assert ours.code == theirs["code"], (asked["code"], ours.remark)
            if theirs["body_len"]:
                expected = shape(parse_json(body_of(theirs)))
                assert shape(parse_json(ours.body)) == expected, RequestCode(asked["code"])
            compared.add(asked["code"])
    assert compared == LOOKED_AT


async def test_A8_the_state_has_the_keys_that_apaches_broker_gives_it(autojump_clock: MockClock) -> None:
    [theirs] = [answer for asked, answer in exchanges("admin_topics") if asked["code"] == 28][:1]
    expected = set(parse_json(body_of(theirs))["table"])
    async with broker_and_client() as (broker, client):
        await client.send()
        missing = {key for key in expected - set(broker.runtime_info()) if not key.startswith("scheduleMessage")}
        # The one is of a disk, the other one tells a path.
        assert missing == {"commitLogDirCapacity", "commitLogDiskRatio_store/commitlog"}
