"""The C++, JavaScript and Go clients on our name server and our broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop import probe
from tests.interop.clients.client import bodies
from tests.interop.clients.cpp import cpp
from tests.interop.clients.golang import golang
from tests.interop.clients.javascript import javascript
from tests.interop.failure import InteropError
from tests.interop.requirement import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Cluster
    from tests.interop.clients.client import Client
    from tests.interop.drivers import Driver, Event

pytestmark = pytest.mark.interop

COUNT = 3
DELAY_MS = 1_000
"""Of the first delay level."""
MAKERS = {"cpp": cpp, "javascript": javascript, "go": golang}


@pytest.fixture(params=MAKERS)
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the clients, installed."""
    made = MAKERS[request.param]()
    if isinstance(made, str):
        require(made)
        raise AssertionError("unreachable")
    return made


@pytest.fixture
def group(our_servers: Cluster, fresh_name: Callable[[str], str]) -> str:
    """A group that has a retry topic, as from an earlier run: these clients look for a new one every 30 s only."""
    name = fresh_name("group")
    our_servers.create_topic(f"%RETRY%{name}", queues=1)
    return name


def got(driver: Driver, count: int) -> list[Event]:
    """So many deliveries, the first ones that came."""
    return driver.wait("message", count)[:count]


def finished(driver: Driver) -> list[Event]:
    """All deliveries up to an end in order."""
    assert driver.finish()[-1]["event"] == "stopped"
    return driver.of("message")


def of_way(way: str, messages: list[Event]) -> list[Event]:
    return sorted((each for each in messages if each["tags"] == way), key=lambda each: each["body"])


def test_what_it_sends_in_every_way_arrives(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    topic, namesrv = fresh_name("Ways"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    sent = client.produce(namesrv, topic, f"{group}-p", client.ways, COUNT)
    with client.consuming(namesrv, topic, group) as driver:
        got(driver, len(client.ways) * COUNT)
        messages = finished(driver)
    for way in client.ways:
        mine = of_way(way, messages)
        assert [each["body"] for each in mine] == bodies(way, COUNT)
        assert [each["keys"] for each in mine] == [f"key-{way}-{number}" for number in range(COUNT)]
        assert {(each["topic"], each["shop"], each["reconsumeTimes"]) for each in mine} == {(topic, "nördlich", 0)}
    assert {each["queueOffset"] for each in sent if each["way"] == "sync"} <= {0, 1, 2}
    ordered = of_way("ordered", messages)
    assert len({each["queueId"] for each in ordered}) == 1
    assert [each["queueOffset"] for each in ordered] == [ordered[0]["queueOffset"] + step for step in range(COUNT)]
    waits = [each["storeTimestamp"] - each["bornTimestamp"] for each in of_way("delayed", messages)]
    assert min(waits) >= DELAY_MS - 1


def test_it_sends_to_a_topic_that_its_first_message_makes(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    topic, namesrv = fresh_name("New"), our_servers.namesrv
    if not client.makes_topics:
        with pytest.raises(InteropError, match="no broker has registered the topic"):
            client.produce(namesrv, topic, f"{group}-p", ("sync",), 1)
        return
    client.produce(namesrv, topic, f"{group}-p", ("sync", "async"), COUNT)
    probe.wait_route(namesrv, topic)
    with client.consuming(namesrv, topic, group) as driver:
        got(driver, 2 * COUNT)
        assert sorted(each["body"] for each in finished(driver)) == sorted(
            bodies("sync", COUNT) + bodies("async", COUNT)
        )


def test_it_gets_only_the_tags_it_subscribes(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    topic, namesrv = fresh_name("Tags"), our_servers.namesrv
    our_servers.create_topic(topic, queues=1)
    with client.consuming(namesrv, topic, group, tags="sync || ordered") as driver:
        client.produce(namesrv, topic, f"{group}-p", ("async", "sync", "delayed", "ordered"), COUNT)
        got(driver, 2 * COUNT)
        assert {each["tags"] for each in finished(driver)} == {"sync", "ordered"}


def test_a_message_that_fails_once_comes_again(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    topic, namesrv = fresh_name("Failed"), our_servers.namesrv
    our_servers.create_topic(topic, queues=1)
    with client.consuming(namesrv, topic, group, fail_first=1) as driver:
        client.produce(namesrv, topic, f"{group}-p", ("sync",), COUNT)
        got(driver, 2 * COUNT)
        messages = finished(driver)
    tries = sorted((each["body"], each["reconsumeTimes"], each["accepted"]) for each in messages)
    assert tries == sorted((body, n, n == 1) for body in bodies("sync", COUNT) for n in (0, 1))
    assert {each["topic"] for each in messages} == {topic}


def test_a_consumer_that_is_started_again_goes_on_where_it_stopped(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    topic, namesrv = fresh_name("Again"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    client.produce(namesrv, topic, f"{group}-p", ("sync",), COUNT)
    with client.consuming(namesrv, topic, group) as driver:
        got(driver, COUNT)
        assert {each["tags"] for each in finished(driver)} == {"sync"}
    client.produce(namesrv, topic, f"{group}-p", ("async",), COUNT)
    with client.consuming(namesrv, topic, group) as driver:
        got(driver, COUNT)
        assert sorted(each["body"] for each in finished(driver)) == bodies("async", COUNT)
