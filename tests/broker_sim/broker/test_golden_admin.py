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
