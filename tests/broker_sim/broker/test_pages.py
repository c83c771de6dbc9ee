"""Tables that are asked for page by page, as a newer broker's replica does it."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.groups import SubscriptionGroupWrapper
from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors import pages
from tests.broker_sim.broker.kit import Client, broker_and_client

NOW = DataVersion(timestamp=7, counter=3)
TABLE = {name: name.upper() for name in "gacebdf"}


def page(table: dict[str, str], current: DataVersion, **wanted: Any) -> dict[str, str]:
    return run_steps(pages.page(table, current, **wanted))


def test_names_are_sorted_in_steps() -> None:
    names = [f"T{number * 7919 % 20_011}" for number in range(20_011)]
    steps = list(pages.sorted_steps(names))
    assert len(steps) > 5
    assert run_steps(pages.sorted_steps(names)) == sorted(names)
    assert run_steps(pages.sorted_steps([])) == []


def test_a_page_is_a_stretch_of_the_names_in_their_order() -> None:
    text = NOW.encode().decode()
    assert list(page(TABLE, NOW, start=0, version="", count=3)) == ["a", "b", "c"]
    assert page(TABLE, NOW, start=3, version=text, count=3) == {"d": "D", "e": "E", "f": "F"}
    assert list(page(TABLE, NOW, start=6, version=text, count=3)) == ["g"]
    assert page(TABLE, NOW, start=7, version=text, count=3) == {}


@pytest.mark.parametrize(
    "version",
    ["", None, "{", " " * 1024 + NOW.encode().decode(), DataVersion(timestamp=7, counter=2).encode().decode()],
)
def test_of_another_state_it_begins_anew(version: str | None) -> None:
    assert list(page(TABLE, NOW, start=3, version=version, count=2)) == ["a", "b"]


def test_whatever_is_asked_for_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ENTRIES", 4)
    text = NOW.encode().decode()
    for count, found in ((None, 4), (100, 4), (0, 0), (-1, 0)):
        assert len(page(TABLE, NOW, start=0, version=text, count=count)) == found
    assert len(page(TABLE, NOW, start=-5, version=text, count=2)) == 2


async def gathered(client: Client, code: int, kind: Any, table: str, total: str, fields: tuple[str, str]) -> set[str]:
    """All pages, as a replica gathers them."""
    found: set[str] = set()
    version = ""
    while True:
        start, count = fields
        answer = await client.ask(code, {start: str(len(found)), count: "5", "dataVersion": version})
        body = kind.decode(answer.body)
        version = body.data_version.encode().decode()
        names = set(getattr(body, table))
        assert len(names) <= 5
        assert not names & found
        found |= names
        if len(found) >= int(answer.ext_fields[total]):
            return found


async def test_A1_A4_topics_and_groups_are_given_in_pages(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        broker.topics.put_all([TopicConfig(topic_name=f"T{n}", read_queue_nums=1) for n in range(12)])
        for number in range(12):
            broker.groups.find(f"g{number}")
        broker.groups.set_readable("g3", "T1", False)
        topics = await gathered(
            client,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            TopicConfigAndMappingSerializeWrapper,
            "topic_config_table",
            "totalTopicNum",
            ("topicSeq", "maxTopicNum"),
        )
        assert topics == set(broker.topics.all())
        groups = await gathered(
            client,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            SubscriptionGroupWrapper,
            "subscription_group_table",
            "totalGroupNum",
            ("groupSeq", "maxGroupNum"),
        )
        assert groups == set(broker.groups.wrapper().subscription_group_table)
        first = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": "0", "maxGroupNum": "2"})
        assert SubscriptionGroupWrapper.decode(first.body).forbidden_table == {}
        whole = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        assert not whole.ext_fields
        assert set(SubscriptionGroupWrapper.decode(whole.body).forbidden_table) == {"g3"}
