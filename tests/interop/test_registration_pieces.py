"""Registrations in pieces: ours at Apache's name server, Apache's at ours, and neither loses a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import probe
from tests.interop.apache import VERSION
from tests.interop.ours import our_broker, our_name_server
from tests.interop.servers import UPDATE_BROKER_CONFIG

if TYPE_CHECKING:
    from tests.interop.apache import Apache

pytestmark = pytest.mark.interop

ALL_TOPICS, DELETE_TOPIC = 206, 215
SPLIT = {"enableSplitRegistration": "true", "splitRegistrationSize": "7", "registerNameServerPeriod": "10000"}
NAMES = {f"Piece-{n:03}" for n in range(40)}
BROKER = "broker-split"
WITHIN = 60.0
"""Seconds for some periods of registration, which are ten seconds here."""


def listed(name_server: str) -> set[str]:
    return set(json.loads(probe.call(name_server, ALL_TOPICS).body)["topicList"])


def create(broker: str) -> None:
    for name in sorted(NAMES):
        probe.create_topic(broker, name, queues=3)


def register(broker: str) -> None:
    """Have Apache's broker register now, as it does every ten seconds: a change of its permission makes it do so."""
    assert probe.call(broker, UPDATE_BROKER_CONFIG, body=b"brokerPermission=6").code == 0


def test_apaches_name_server_takes_our_pieces(apache: Apache, tmp_path: Path) -> None:
    with apache.name_server() as head:
        with our_broker(head.address, name=BROKER, overrides=SPLIT, home=tmp_path) as broker:
            create(broker.address)
        # All of them in pieces, to a name server that knows nothing of the broker.
        with our_broker(head.address, name=BROKER, overrides=SPLIT, home=tmp_path):
            probe.eventually(lambda: listed(head.address) >= NAMES or None, "topic of every piece", WITHIN)
            for name in sorted(NAMES)[::13]:
                [queues] = probe.wait_route(head.address, name)["queueDatas"]
                assert (queues["brokerName"], queues["writeQueueNums"]) == (BROKER, 3)


@pytest.mark.one_line(VERSION, "brokers of 4.x register in one piece")
def test_our_name_server_keeps_what_other_pieces_of_apaches_broker_hold(apache: Apache) -> None:
    """With deleteTopicWithBrokerRegistration, where Apache's own forgets the pieces before the last one."""
    with our_name_server(overrides={"deleteTopicWithBrokerRegistration": "true"}) as head:
        with apache.broker(head.address, name=BROKER, overrides=SPLIT) as broker:
            create(broker.address)
            register(broker.address)
            probe.eventually(lambda: listed(head.address) >= NAMES or None, "topic that was made", WITHIN)
            gone = min(NAMES)
            assert probe.call(broker.address, DELETE_TOPIC, {"topic": gone}).code == 0

            def look() -> bool | None:
                register(broker.address)
                found = listed(head.address)
                assert found >= NAMES - {gone}, "no piece may push out another one"
                return gone not in found or None

            probe.eventually(look, f"name server that has forgotten {gone}", WITHIN)
