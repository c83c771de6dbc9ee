"""Bounds that no request reaches alone: tables are filled up to them, and then one more is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.remoting.limits import ServerLimits
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.namesrv import kv_config, route_info
from rocketpy_broker_sim.namesrv.queue_table import weight_of_topic
from rocketpy_broker_sim.serving.encoding import MOST_ENCODED
from rocketpy_broker_sim.store.key_queries import MAX_QUERY_BYTES
from tests.hostile.crowd import Crowd
from tests.hostile.frames import MIB, request
from tests.hostile.innocent import TOPIC
from tests.hostile.measure import SLACK, Watch
from tests.hostile.peer import Peer, ask_once, wait_until
from tests.hostile.report import Report
from tests.hostile.samples import small_fields
from tests.hostile.shapes import dump
from tests.hostile.test_crowds import AGAIN, create_topic, finish, heartbeat, pull
from tests.hostile.world import World, running

pytestmark = [
    pytest.mark.quiet("measures turns, waits and memory of servers"),
    pytest.mark.matrix,
    pytest.mark.slow,
]

TRIED = {
    "BrokerConfig.max_topics": "test_topics_up_to_the_bound_of_both_servers",
    "route_info.MAX_TOPICS": "test_topics_up_to_the_bound_of_both_servers",
    "encoding.MOST_ENCODED": "test_topics_up_to_the_bound_of_both_servers",
    "BrokerConfig.max_groups": "test_groups_up_to_the_bound",
    "BrokerConfig.max_clients_per_group": "test_members_of_a_group_up_to_the_bound",
    "ServerLimits.max_connections_per_host": "test_members_of_a_group_up_to_the_bound",
    "key_queries.MAX_QUERY_BYTES": "test_a_query_gives_no_more_than_fits_into_an_answer",
    "BrokerConfig.max_consumer_offsets": "test_offsets_up_to_a_bound",
    "BrokerConfig.max_memberships": "test_memberships_up_to_a_bound",
    "BrokerConfig.max_held_pulls": "test_held_pulls_up_to_a_bound",
    "BrokerConfig.max_hold_millis": "test_no_pull_is_held_longer_than_the_bound",
    "MessageStoreConfig.max_queues": "test_queues_up_to_a_bound",
    "route_info.MAX_BROKERS": "test_brokers_up_to_the_bound",
    "route_info.MAX_BYTES_OF_ONE": "test_registrations_of_one_connection_up_to_the_bound_in_bytes",
    "route_info.MAX_BYTES": "test_registrations_up_to_the_bound_in_bytes",
    "kv_config.MAX_ENTRIES": "test_key_values_up_to_the_bound",
    "kv_config.MAX_SIZE": "test_key_values_up_to_the_bound",
}
"""The bounds by the tests here that reach them."""
CONFIG = BrokerConfig()
OK, ERROR = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR
A_TIME = 20_000
"""Topics or groups of a request."""
A_REGISTRATION = 5_000
"""Topics of a registration at most: names of four digits."""


def test_each_test_that_is_named_is_there() -> None:
    assert set(TRIED.values()) <= set(globals())


# --- tables of the broker, at their own bounds ---------------------------------------------------------------


def test_topics_up_to_the_bound_of_both_servers(fresh: World, report: Report) -> None:
    """As many as a broker may hold, and a name server; both refuse one more, and say what they hold in pages."""
    broker, namesrv = fresh.broker, fresh.namesrv
    most = CONFIG.max_topics
    assert most == route_info.MAX_TOPICS
    registered = Watch(namesrv, f"{most:,} topics are registered, and one more")
    with registered, Peer(broker.address) as peer, Watch(broker, f"{most:,} topics, and one more") as watch:
        first = request(RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "1"})
        left = most - int(peer.ask(first).fields["totalTopicNum"])
        names = [f"Bound-{number}" for number in range(left)]
        for start in range(0, left, A_TIME):
            topics = [{"topicName": name} for name in names[start : start + A_TIME]]
            body = dump({"topicConfigList": topics})
            assert peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body)).code == OK
        assert int(peer.ask(first).fields["totalTopicNum"]) == most
        assert peer.ask(create_topic("OneMore", 4)).code == ERROR
        assert peer.ask(create_topic(names[0], 8)).code == OK
        everything = peer.ask(request(RequestCode.GET_ALL_TOPIC_CONFIG))
        # What does not fit into one answer has to be asked for in pages.
        assert most * 160 > MOST_ENCODED
        assert everything.code == ERROR
    finish(watch, report, grows=TABLES, keeps=TABLES)

    with Peer(namesrv.address) as peer:
        last = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": names[-1]})
        assert wait_until(lambda: ask_once(namesrv.address, last).code == OK, 60)
        body = dump({"queueDatas": [{"brokerName": "broker-a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}]})
        for name, code in ((names[0], OK), ("OneMore", ResponseCode.TOPIC_NOT_EXIST)):
            assert peer.ask(request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": name}, body)).code == OK
            assert peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})).code == code
    finish(registered, report, grows=TABLES, keeps=TABLES)


def test_groups_up_to_the_bound(fresh: World, report: Report) -> None:
    broker, most = fresh.broker, CONFIG.max_groups
    with Peer(broker.address) as peer, Watch(broker, f"{most:,} groups, and one more") as watch:
        first = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {"groupSeq": "0", "maxGroupNum": "1"})
        left = most - int(peer.ask(first).fields["totalGroupNum"])
        for start in range(0, left, A_TIME):
            groups = [{"groupName": f"Bound-{number}"} for number in range(start, min(left, start + A_TIME))]
            body = dump({"groupConfigList": groups})
            assert peer.ask(request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, body)).code == OK
        assert int(peer.ask(first).fields["totalGroupNum"]) == most
        for name, code in (("OneMore", ERROR), ("Bound-0", OK)):
            body = dump({"groupName": name, "retryMaxTimes": 3})
            assert peer.ask(request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)).code == code
    finish(watch, report, grows=TABLES, keeps=TABLES)


def test_members_of_a_group_up_to_the_bound(fresh: World, report: Report) -> None:
    """Of one host there may be as many connections as a group may have members: one more is closed, or refused."""
    broker, most = fresh.broker, CONFIG.max_clients_per_group
    assert most == ServerLimits().max_connections_per_host
    with Watch(broker, f"a group of {most:,}, and one more") as watch, Crowd(broker.address, most) as crowd:
        crowd.send(lambda number: heartbeat(f"c{number}", ["Crowd"]))
        assert crowd.all_answered(30)
        assert crowd.codes == {OK}
        with Crowd(broker.address, 1) as late:
            assert wait_until(lambda: not late.open(), 10)
        with Peer(broker.address) as peer:
            assert peer.ask(heartbeat("one-more", ["Crowd"])).code == ERROR
            assert peer.ask(heartbeat("one-more", ["Other"])).code == OK
    finish(watch, report, keeps=AGAIN[0])


def test_a_query_gives_no_more_than_fits_into_an_answer(fresh: World, report: Report) -> None:
    """Five messages of nearly 4 MiB with one key."""
    broker, size = fresh.broker, 4 * MIB - 4096
    fields = small_fields(RequestCode.SEND_MESSAGE) | {"topic": TOPIC, "properties": "KEYS\x01large\x02"}
    wanted = small_fields(RequestCode.QUERY_MESSAGE) | {"topic": TOPIC, "key": "large"}
    asked = request(RequestCode.QUERY_MESSAGE, wanted)
    with Peer(broker.address) as peer, Watch(broker, "a query for 20 MiB", size=16 * MIB) as watch:
        for count in range(1, 6):
            assert peer.ask(request(RequestCode.SEND_MESSAGE, fields, bytes(size))).code == OK
            expected = min(count, MAX_QUERY_BYTES // size)
            assert wait_until(lambda most=expected: len(peer.ask(asked).body) // size == most, 10), (count, expected)
    finish(watch, report)


# --- bounds that are lowered, as their own would take all of the machine ----------------------------------------


LOWER = {
    "maxConsumerOffsets": 1_000,
    "maxMemberships": 1_000,
    "maxHeldPulls": 100,
    "maxHoldMillis": 1_000,
    "maxQueues": 100,
}


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = "".join(f"{key}={value}\n" for key, value in LOWER.items())
    with running(Path(tmp_path_factory.mktemp("lowered")), {"broker": settings}) as made:
        yield made


def test_offsets_up_to_a_bound(lowered: World) -> None:
    def commit(peer: Peer, number: int) -> int:
        fields = {"consumerGroup": "Offsets", "topic": "Offsets", "queueId": str(number), "commitOffset": "0"}
        return peer.ask(request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code

    with Peer(lowered.broker.address) as peer:
        assert peer.ask(create_topic("Offsets", 2_000)).code == OK
        group = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, dump({"groupName": "Offsets"}))
        assert peer.ask(group).code == OK
        codes = [commit(peer, number) for number in range(LOWER["maxConsumerOffsets"] + 1)]
        # The innocent have committed, too.
        assert codes.count(ERROR) <= 5
        assert codes[-1] == ERROR
        assert set(codes[: codes.index(ERROR)]) == {OK}
        assert commit(peer, 0) == OK


def test_memberships_up_to_a_bound(lowered: World) -> None:
    most = LOWER["maxMemberships"]
    with Peer(lowered.broker.address) as peer, Peer(lowered.broker.address) as other:
        assert peer.ask(heartbeat("a", [], [f"P{number}" for number in range(most)])).code == OK
        assert other.ask(heartbeat("b", [], ["P0"])).code == ERROR
        assert peer.ask(heartbeat("a", [], ["P0"])).code == OK
        peer.close()
        assert wait_until(lambda: other.ask(heartbeat("b", [], ["P0"])).code == OK, 10)


def test_held_pulls_up_to_a_bound(lowered: World) -> None:
    """The connection that has most makes room with its newest pull, which is answered at once: there is nothing."""
    most, address = LOWER["maxHeldPulls"], lowered.broker.address
    with Peer(address) as greedy, Peer(address) as other:
        assert greedy.ask(create_topic("Held", most + 1)).code == OK
        frames = [pull("Held", "Held", queue, suspend_ms=1_000) for queue in range(most)]
        began = time.monotonic()
        greedy.send(b"".join(frames))
        asked = request(RequestCode.GET_MAX_OFFSET, {"topic": "Held", "queueId": "0"})
        greedy.ask(asked)
        other.send(pull("Other", "Held", most, suspend_ms=1_000))
        assert greedy.read().code == ResponseCode.PULL_NOT_FOUND
        assert time.monotonic() - began < 0.9
        assert other.read().code == ResponseCode.PULL_NOT_FOUND
        assert time.monotonic() - began >= 0.9


def test_queues_up_to_a_bound(lowered: World) -> None:
    """Each message in a queue of its own; those that have one already go on."""

    def send(peer: Peer, queue: int) -> int:
        fields = small_fields(RequestCode.SEND_MESSAGE) | {"topic": "Queues", "queueId": str(queue)}
        return peer.ask(request(RequestCode.SEND_MESSAGE, fields, b"x")).code

    most = LOWER["maxQueues"]
    with Peer(lowered.broker.address) as peer:
        assert peer.ask(create_topic("Queues", 2 * most)).code == OK
        codes = [send(peer, queue) for queue in range(most + 1)]
        taken = codes.count(OK)
        # The innocent and the broker's own have some, too.
        assert most - 20 <= taken <= most
        assert set(codes[:taken]) == {OK}
        assert OK not in codes[taken:]
        assert send(peer, 0) == OK


def test_no_pull_is_held_longer_than_the_bound(lowered: World) -> None:
    with Peer(lowered.broker.address) as peer:
        assert peer.ask(create_topic("Held", 4)).code == OK
        for asked in (LOWER["maxHoldMillis"], 25_000):
            began = time.monotonic()
            assert peer.ask(pull("Long", "Held", 0, suspend_ms=asked)).code == ResponseCode.PULL_NOT_FOUND
            assert 0.9 <= time.monotonic() - began < 10


# --- tables of the name server -----------------------------------------------------------------------------------


def register(name: str, topics: list[str]) -> bytes:
    """A registration of a broker with these topics."""
    table = {topic: {"topicName": topic} for topic in topics}
    fields = small_fields(RequestCode.REGISTER_BROKER) | {"brokerName": name, "brokerAddr": f"{name}:1"}
    body = dump({"topicConfigSerializeWrapper": {"topicConfigTable": table}})
    return request(RequestCode.REGISTER_BROKER, fields, body)


def test_brokers_up_to_the_bound(fresh: World, report: Report) -> None:
    """Of twenty connections; there is one broker already."""
    namesrv, most, each = fresh.namesrv, route_info.MAX_BROKERS, route_info.MAX_BROKERS // 20
    with Watch(namesrv, f"{most:,} brokers, and one more") as watch:
        peers = [Peer(namesrv.address) for _ in range(20)]
        codes = []
        for number, peer in enumerate(peers):
            frames = [register(f"b{number}-{count}", []) for count in range(each)]
            codes += [answer.code for answer in peer.attack(frames[:-1], frames[-1])]
        assert codes == [OK] * (most - 1) + [ERROR]
        assert peers[0].ask(register("b0-0", [])).code == OK
        for peer in peers:
            peer.close()
    finish(watch, report, keeps=2 * SLACK)  # the first time; it is the brokers that take most of it


def filling(prefix: str, room: int) -> list[bytes]:
    """Registrations that are reckoned to take so many bytes, all but less than a topic; the last one is too much."""
    frames = []
    name = f"{prefix}{len(frames):03}"
    each = weight_of_topic("Weight-0000")
    while room > 0:
        name = f"{prefix}{len(frames):03}"
        fit = min(A_REGISTRATION, (room - route_info.BYTES_A_BROKER) // each)
        frames.append(register(name, [f"Weight-{number:04}" for number in range(fit)]))
        room -= route_info.BYTES_A_BROKER + fit * each
        if fit < A_REGISTRATION:
            break
    return [*frames, register(name, [f"Weight-{number:04}" for number in range(fit + 1)])]


def test_registrations_of_one_connection_up_to_the_bound_in_bytes(fresh: World, report: Report) -> None:
    namesrv = fresh.namesrv
    for keeps in AGAIN:
        with Watch(namesrv, "64 MiB of registrations, and one more topic") as watch, Peer(namesrv.address) as peer:
            frames = filling("w", route_info.MAX_BYTES_OF_ONE)
            codes = [peer.ask(frame).code for frame in frames]
            assert codes == [OK] * (len(frames) - 1) + [ERROR]
        finish(watch, report, grows=route_info.MAX_BYTES_OF_ONE, keeps=keeps)


def test_registrations_up_to_the_bound_in_bytes(fresh: World, report: Report) -> None:
    """Of three connections; what the broker of the innocent has counts, too, so that the last one is refused sooner."""
    namesrv = fresh.namesrv
    for keeps in (64 * MIB, SLACK):
        with Watch(namesrv, "128 MiB of registrations") as watch:
            peers = [Peer(namesrv.address) for _ in range(3)]
            codes = []
            for number, peer in enumerate(peers):
                room = 60 * MIB if number < 2 else route_info.MAX_BYTES - 120 * MIB - 64 * 1024
                codes.append([peer.ask(frame).code for frame in filling(f"w{number}", room)])
            assert all(code == OK for some in codes for code in some)
            frames = filling("more", 64 * 1024)
            assert {peers[2].ask(frame).code for frame in frames} == {ERROR}
            for peer in peers:
                peer.close()
        finish(watch, report, grows=route_info.MAX_BYTES, keeps=keeps)


@pytest.mark.parametrize("bound", ["MAX_ENTRIES", "MAX_SIZE"])
def test_key_values_up_to_the_bound(fresh: World, report: Report, bound: str) -> None:
    """The table is in the file when the name server starts, but for the last entry or the last character."""
    namesrv = fresh.namesrv
    if bound == "MAX_ENTRIES":
        entries = {f"k{number}": "v" for number in range(kv_config.MAX_ENTRIES - 1)}
        last, beyond = ("last", "v"), ("more", "v")
    else:
        entries = {"k": "v" * (kv_config.MAX_SIZE - len("n" + "k" + "last") - 1)}
        last, beyond = ("last", "v"), ("last", "vv")
    fresh.kill()
    (namesrv.home / f"store{namesrv.starts + 1}.json").write_bytes(dump({"configTable": {"n": entries}}))
    fresh.start()

    def put(peer: Peer, key: str, value: str) -> int:
        fields = small_fields(RequestCode.PUT_KV_CONFIG) | {"namespace": "n", "key": key, "value": value}
        return peer.ask(request(RequestCode.PUT_KV_CONFIG, fields)).code

    with Peer(namesrv.address) as peer, Watch(namesrv, f"key values at kv_config.{bound}") as watch:
        assert put(peer, *last) == OK
        assert put(peer, *beyond) == ResponseCode.NO_PERMISSION
        answer = peer.ask(request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}))
        assert len(json.loads(answer.body)["table"]) == len(entries) + 1
    finish(watch, report)


TABLES = 128 * MIB
"""What tables at their bounds may take: they are there afterwards, as was asked."""
