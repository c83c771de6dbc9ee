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
from tests.interop.ours import our_broker, our_name_server
from tests.interop.ports import port_block
from tests.interop.requirement import require
from tests.interop.servers import temporary_home
from tests.interop.settings import QUICK_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.clients.client import Client
    from tests.interop.drivers import Driver, Event
    from tests.interop.servers import Server

pytestmark = pytest.mark.interop

COUNT = 3
SINGLE_WAYS = ("sync", "async", "ordered")
"""Of sending one message at once, which all clients know."""
QUERY_CONSUMER_OFFSET = 14
LINGER_MS = 200
DELAY_MS = 1_000
"""Of the first delay level."""
AT_LAST_WITHIN = 150.0
"""For what clients do at once when they hear of it, and otherwise every 10, 20 or 30 s: Go may need 40 s."""
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
def group(fresh_name: Callable[[str], str]) -> str:
    """A new group."""
    return fresh_name("group")


@pytest.fixture(scope="module", autouse=True)
def begun(request: pytest.FixtureRequest) -> None:
    """Begin first what takes long, as clients look at some things every 30 s only: the other tests run beside it."""
    for name in ("failed_first", "restarted"):
        if any(name in getattr(each, "fixturenames", ()) for each in request.session.items):
            request.getfixturevalue(name)


@pytest.fixture(scope="module")
def failed_first(
    making: dict[str, Future[Client | str]], our_servers: Cluster
) -> Iterator[dict[str, Future[list[Event]]]]:
    """For each client the deliveries of messages that it fails once, in a group that is new."""
    with ThreadPoolExecutor(len(MAKERS)) as pool:
        yield {name: pool.submit(fail_first, making[name], our_servers, f"Failed-{name}") for name in MAKERS}


def fail_first(making: Future[Client | str], servers: Cluster, topic: str) -> list[Event]:
    client, group = installed(making), f"{topic}-group"
    servers.create_topic(topic, queues=1)
    with client.consuming(servers.namesrv, topic, group, fail_first=1) as driver:
        for way in SINGLE_WAYS:
            # One after the other: of what the C++ client pulls together all come again when one of them fails.
            client.produce(servers.namesrv, topic, f"{topic}-p", (way,), 1)
            probe.eventually(partial(has_come, driver, f"{way}-0"), f"the message sent {way}", AT_LAST_WITHIN)
        messages = got(driver, 2 * len(SINGLE_WAYS))
        wait_committed(servers.brokers[0], group, [each for each in messages if each["reconsumeTimes"] == 0])
        return finished(driver)


@pytest.fixture(scope="module")
def restarted(making: dict[str, Future[Client | str]]) -> Iterator[Future[list[list[Event]]]]:
    """The deliveries to consumers of each language, whose broker is started again."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(go_on_after_a_restart, making)


def go_on_after_a_restart(making: dict[str, Future[Client | str]]) -> list[list[Event]]:
    """All at once, since the C++ and the Go client need up to half a minute: until their next heartbeat.

    The name server is one of their own: who makes a topic by sending to it takes any broker that it knows.
    """
    sender, *_ = (installed(each) for each in making.values())
    topic = "Restarted"
    with port_block() as port, temporary_home("restarted") as home, ExitStack() as stack:
        namesrv = stack.enter_context(our_name_server()).address
        overrides = {"listenPort": port, **QUICK_RETRIES}
        again = partial(our_broker, namesrv, name="restarted", home=home, overrides=overrides)
        broker = stack.enter_context(again())
        probe.create_topic(broker.address, topic, queues=2)
        probe.wait_route(namesrv, topic)
        opened = [
            stack.enter_context(installed(each).consuming(namesrv, topic, f"Restarted-{name}"))
            for name, each in making.items()
        ]
        sender.produce(namesrv, topic, "Restarted-p", ("sync",), COUNT)
        for driver in opened:
            got(driver, COUNT)
        assert broker.process.stop() == 0
        with again():
            probe.wait_route(namesrv, topic)
            sender.produce(namesrv, topic, "Restarted-p", ("async",), COUNT)
            for driver in opened:
                come = partial(has_come, driver, *bodies("async", COUNT))
                probe.eventually(come, "messages from the broker that was started again", AT_LAST_WITHIN)
            return [finished(driver) for driver in opened]


def wait_committed(broker: Server, group: str, messages: list[Event]) -> None:
    """Wait until the broker has it from a group that it is behind these messages."""
    behind: dict[tuple[str, int], int] = {}
    for each in messages:
        queue = each["topic"], each["queueId"]
        behind[queue] = max(behind.get(queue, 0), each["queueOffset"] + 1)

    def committed() -> bool | None:
        found = (committed_offset(broker, group, *queue) >= offset for queue, offset in behind.items())
        return all(found) or None

    probe.eventually(committed, f"offsets of {group} behind {behind}", AT_LAST_WITHIN)


def committed_offset(broker: Server, group: str, topic: str, queue: int) -> int:
    asked = {"consumerGroup": group, "topic": topic, "queueId": queue}
    return int(probe.call(broker.address, QUERY_CONSUMER_OFFSET, asked).fields.get("offset", -1))


def got(driver: Driver, count: int) -> list[Event]:
    """So many deliveries, the first ones that came."""
    return driver.wait("message", count, AT_LAST_WITHIN)[:count]


def finished(driver: Driver) -> list[Event]:
    """All deliveries up to an end in order."""
    assert driver.finish()[-1]["event"] == "stopped"
    return driver.of("message")


def has_come(driver: Driver, *wanted: str) -> bool | None:
    """Whether all these bodies have been delivered."""
    return {each["body"] for each in driver.of("message")} >= set(wanted) or None


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
        # It raises what the name server answers, Apache's or ours, when it asks for the route, and sends nothing: its
        # own look at the route of new topics stands behind that, where it never comes.
        with pytest.raises(InteropError, match="MQClientException: no broker has registered the topic"):
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


@pytest.mark.parametrize("name", MAKERS)
def test_a_message_that_fails_once_comes_again_in_a_new_group(
    name: str, failed_first: dict[str, Future[list[Event]]]
) -> None:
    """The JavaScript client finds the new retry topic at once, the C++ client after 10 s and the Go client after 40 s.

    It is the same on Apache's servers.
    """
    messages = failed_first[name].result()
    tries = sorted((each["body"], each["reconsumeTimes"], each["accepted"]) for each in messages)
    assert tries == sorted((f"{way}-0", n, n == 1) for way in SINGLE_WAYS for n in (0, 1))
    assert {each["topic"] for each in messages} == {f"Failed-{name}"}


def test_a_consumer_that_is_started_again_goes_on_where_it_stopped(
    client: Client, our_servers: Cluster, fresh_name: Callable[[str], str], group: str
) -> None:
    """It lingers in its listener: what it is told to stop in, the Go and the JavaScript client take again."""
    topic, namesrv = fresh_name("Again"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    client.produce(namesrv, topic, f"{group}-p", ("sync",), COUNT)
    with client.consuming(namesrv, topic, group, linger=LINGER_MS) as driver:
        messages = got(driver, COUNT)
        assert {each["tags"] for each in messages} == {"sync"}
        # One at a time: it comes when the client has taken note of all before it.
        client.produce(namesrv, topic, f"{group}-p", ("ordered",), 1)
        got(driver, COUNT + 1)
        assert len(finished(driver)) == COUNT + 1
    wait_committed(our_servers.brokers[0], group, messages)
    client.produce(namesrv, topic, f"{group}-p", ("async",), COUNT)
    with client.consuming(namesrv, topic, group, tags="sync || async") as driver:
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
        taken_over = partial(has_come, stays, *bodies("async", 4))
        probe.eventually(taken_over, "the messages of every queue for the member that stays", AT_LAST_WITHIN)
        finished(stays)


def test_all_go_on_when_our_broker_is_started_again(restarted: Future[list[list[Event]]]) -> None:
    for messages in restarted.result():
        assert {each["body"] for each in messages} == {*bodies("sync", COUNT), *bodies("async", COUNT)}


@pytest.mark.one_line("5.3.3", "it sends and reads as 4.9.7 does")
def test_every_client_reads_what_every_other_sends(
    clients: list[Client], apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, namesrv = fresh_name("Everybody"), our_servers.namesrv
    our_servers.create_topic(topic, queues=2)
    expected = sorted([*["sync-0", *bodies("large", 1)] * len(clients), "body-0".ljust(LARGE, "."), "ours"])

    def read(client: Client, group: str) -> list[Event]:
        with client.consuming(namesrv, topic, group) as driver:
            got(driver, len(expected))
            return finished(driver)

    def read_with_java(group: str) -> list[str]:
        with java_push_consumer(apache, namesrv, group, topic) as consumer:
            consumer.wait_messages(len(expected), AT_LAST_WITHIN)
            return [base64.b64decode(each["body"]).decode() for each in finished(consumer)]

    with ThreadPoolExecutor(len(clients) + 2) as pool:
        java = pool.submit(read_with_java, fresh_name("group"))
        java_sent = pool.submit(
            java_produce,
            apache,
            namesrv,
            topic,
            1,
            tags="java",
            keys="key-%d",
            properties="shop=nördlich",
            body_size=LARGE,
        )
        found = [pool.submit(read, each, fresh_name("group")) for each in clients]
        for each in clients:
            each.produce(namesrv, topic, fresh_name("group"), ("sync", "large"), 1)
        with rocketpy.sync.Producer(fresh_name("group"), namesrv=namesrv) as producer:
            producer.send(Message(topic, b"ours", tags="ours", keys="key", properties={"shop": "nördlich"}))
        java_sent.result()
        for messages in (each.result() for each in found):
            assert sorted(message["body"].strip() for message in messages) == expected
            assert {message["shop"] for message in messages} == {"nördlich"}
        assert sorted(java.result()) == expected
