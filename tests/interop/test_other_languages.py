"""The C++, JavaScript and Go clients on our name server and our broker."""

from __future__ import annotations

import base64
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message
from tests.interop import probe
from tests.interop.clients.client import LARGE, bodies
from tests.interop.clients.cpp import cpp
from tests.interop.clients.golang import golang
from tests.interop.clients.javascript import javascript
from tests.interop.drivers import java_produce, java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.ours import our_broker
from tests.interop.ports import port_block
from tests.interop.requirement import require
from tests.interop.settings import QUICK_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster
    from tests.interop.clients.client import Client
    from tests.interop.drivers import Driver, Event

pytestmark = pytest.mark.interop

COUNT = 3
DELAY_MS = 1_000
"""Of the first delay level."""
AT_LAST_WITHIN = 60.0
"""For what clients do at once when they hear of it, and otherwise every 10, 20 or 30 s."""
MAKERS = {"cpp": cpp, "javascript": javascript, "go": golang}


@pytest.fixture(scope="session")
def making() -> Iterator[dict[str, Future[Client | str]]]:
    """All clients, which are installed side by side; tests of one run while another is still being built."""
    with ThreadPoolExecutor(len(MAKERS)) as pool:
        yield {name: pool.submit(make) for name, make in MAKERS.items()}


def installed(making: Future[Client | str]) -> Client:
    """A client; without it the test is skipped, or fails where nothing may be skipped."""
    made = making.result()
    if isinstance(made, str):
        require(made)
        raise AssertionError("it does not come back")
    return made


@pytest.fixture(params=MAKERS)
def client(request: pytest.FixtureRequest, making: dict[str, Future[Client | str]]) -> Client:
    """Each of the clients."""
    return installed(making[request.param])


@pytest.fixture
def clients(making: dict[str, Future[Client | str]]) -> list[Client]:
    """All of them."""
    return [installed(each) for each in making.values()]


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


def test_members_share_the_queues_and_the_one_that_stays_takes_over(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    """The broker tells the members of a group of who joins and leaves."""
    topic, namesrv = fresh_name("Shared"), our_servers.namesrv
    our_servers.create_topic(topic, queues=4)

    def send(way: str) -> None:
        client.produce(namesrv, topic, f"{group}-p", (way,), 4)

    with client.consuming(namesrv, topic, group) as stays:
        with client.consuming(namesrv, topic, group) as goes:

            def shared() -> bool | None:
                send("sync")
                return bool(stays.of("message") and goes.of("message")) or None

            probe.eventually(shared, "messages for both members", AT_LAST_WITHIN)
            finished(goes)
        send("async")

        def taken_over() -> bool | None:
            return {each["body"] for each in stays.of("message")} >= set(bodies("async", 4)) or None

        probe.eventually(taken_over, "the messages of every queue for the member that stays", AT_LAST_WITHIN)
        finished(stays)


def test_all_go_on_when_our_broker_is_started_again(
    clients: list[Client], our_servers: Cluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    """All at once, since the C++ and the Go client need up to half a minute: until their next heartbeat."""
    topic, name, namesrv = fresh_name("Restarted"), fresh_name("broker"), our_servers.namesrv
    groups = [fresh_name("group") for _ in clients]
    with port_block() as port, ExitStack() as stack:
        again = partial(our_broker, namesrv, name=name, home=tmp_path, overrides={"listenPort": port, **QUICK_RETRIES})
        broker = stack.enter_context(again())
        for made, queues in (topic, 2), *((f"%RETRY%{group}", 1) for group in groups):
            probe.create_topic(broker.address, made, queues=queues)
            probe.wait_route(namesrv, made)
        opened = [
            stack.enter_context(each.consuming(namesrv, topic, group))
            for each, group in zip(clients, groups, strict=True)
        ]
        clients[0].produce(namesrv, topic, fresh_name("group"), ("sync",), COUNT)
        for driver in opened:
            got(driver, COUNT)
        assert broker.process.stop() == 0
        with again():
            probe.wait_route(namesrv, topic)
            clients[0].produce(namesrv, topic, fresh_name("group"), ("async",), COUNT)

            def come() -> bool | None:
                bodies_of = ({each["body"] for each in driver.of("message")} for driver in opened)
                return all(found >= set(bodies("async", COUNT)) for found in bodies_of) or None

            probe.eventually(come, "messages from the broker that was started again", AT_LAST_WITHIN)
            for driver in opened:
                finished(driver)


@pytest.mark.one_line("5.3.3", "it sends and reads as 4.9.7 does")
def test_every_client_reads_what_every_other_sends(
    clients: list[Client], apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, namesrv = fresh_name("Everybody"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    for each in clients:
        each.produce(namesrv, topic, fresh_name("group"), ("sync", "large"), 1)
    java_produce(apache, namesrv, topic, 1, tags="java", keys="key-%d", properties="shop=nördlich", body_size=LARGE)
    with rocketpy.sync.Producer(fresh_name("group"), namesrv=namesrv) as producer:
        producer.send(Message(topic, b"ours", tags="ours", keys="key", properties={"shop": "nördlich"}))
    expected = sorted([*["sync-0", *bodies("large", 1)] * len(clients), "body-0".ljust(LARGE, "."), "ours"])
    for each in clients:
        with each.consuming(namesrv, topic, fresh_name("group")) as driver:
            got(driver, len(expected))
            messages = finished(driver)
        assert sorted(message["body"].strip() for message in messages) == expected
        assert {message["shop"] for message in messages} == {"nördlich"}
    with java_push_consumer(apache, namesrv, fresh_name("group"), topic) as consumer:
        found = consumer.wait_messages(len(expected))
        consumer.finish()
    assert sorted(base64.b64decode(message["body"]).decode() for message in found) == expected
