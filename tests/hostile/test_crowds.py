"""Many peers at once, and one that asks for much: nobody else waits, and memory has its bound."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import statistics
import threading
import time
from collections.abc import Callable

import pytest

from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.hostile.crowd import Crowd
from tests.hostile.frames import MIB, ONEWAY, request
from tests.hostile.innocent import TOPIC, route_request
from tests.hostile.measure import SLACK, FarOverError, LittleOverError, Reading, Watch, is_little_over, is_time_alone
from tests.hostile.peer import Answer, Closed, Peer, ask_once, wait_until
from tests.hostile.report import Report
from tests.hostile.samples import small_fields
from tests.hostile.shapes import dump
from tests.hostile.world import ROLES, Served, World
from tests.pace import slowness

pytestmark = [
    pytest.mark.alone("measures turns, waits and memory of servers"),
    pytest.mark.matrix,
    pytest.mark.slow,
    pytest.mark.waits("looks at real servers for seconds, while crowds of connections come and go"),
]

CROWD = 64 * MIB
"""What a crowd may have a server take while it is there."""
BUDGET = 256 * MIB
"""What all peers together may have a server keep for them."""
AGAIN = (48 * MIB, SLACK)
"""What 2,000 connections and their groups may leave behind, and what the same ones may leave that come a second time.

The first time tables are made, and the C library keeps for the next what it has taken: it lies between what stays.
"""
MEMBERS = 1_990
"""Of one host there may be 2,000 connections."""
HELD_FOR_MS = 30_000
"""The most for which a broker holds a pull."""


def finish(watch: Watch, report: Report, *, grows: int = CROWD, keeps: int = SLACK) -> Reading:
    """Judge what was watched; what a crowd may take of memory is a figure, not a multiple of one request.

    `keeps` is what may stay: tables that the server has been asked for.
    """
    reading = watch.reading(keeps=keeps)
    report.note_named(reading)
    faults = [fault for fault in reading.faults if "memory grew" not in fault and "of memory stayed" not in fault]
    if is_little_over(reading, faults):
        raise LittleOverError(str(reading), faults)
    if is_time_alone(reading, faults):
        raise FarOverError(str(reading), faults)
    assert not faults, (str(reading), faults)
    assert reading.grown <= grows, str(reading)
    if keeps < reading.left <= 2 * keeps:
        # Gaps in the heap fall in another way on a new server; what it really keeps is there again.
        raise LittleOverError(str(reading), f"{keeps / MIB:.0f} MiB may stay")
    assert reading.left <= keeps, str(reading)
    return reading


def heartbeat(client: str, groups: list[str], producers: list[str] = ()) -> bytes:
    consumers = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}],
        }
        for group in groups
    ]
    body = {
        "clientID": client,
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": name} for name in producers],
    }
    return request(RequestCode.HEART_BEAT, {}, dump(body))


def pull(group: str, topic: str, queue: int, *, suspend_ms: int, offset: int = 0) -> bytes:
    fields = small_fields(RequestCode.PULL_MESSAGE) | {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "sysFlag": "6",
        "suspendTimeoutMillis": str(suspend_ms),
    }
    return request(RequestCode.PULL_MESSAGE, fields)


def create_topic(name: str, queues: int) -> bytes:
    fields = small_fields(RequestCode.UPDATE_AND_CREATE_TOPIC)
    return request(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        fields | {"topic": name, "readQueueNums": str(queues), "writeQueueNums": str(queues)},
    )


# --- clients that come and go ------------------------------------------------------------------------------


def test_two_thousand_connections_heartbeat_and_are_answered_in_ten_seconds(fresh: World, report: Report) -> None:
    """Each is in a group of its own, as the clients of a company are."""
    broker = fresh.broker
    for keeps in AGAIN:
        with Watch(broker, "2,000 clients that heartbeat") as watch, Crowd(broker.address, MEMBERS) as crowd:
            began = time.monotonic()
            crowd.send(lambda number: heartbeat(f"c{number}", [f"G{number}"], [f"P{number}"]))
            assert crowd.all_answered(30)
            seconds = time.monotonic() - began
            assert crowd.codes == {ResponseCode.SUCCESS}
            assert seconds <= 10 or seconds / slowness() <= 10, seconds
        finish(watch, report, keeps=keeps)


def told(crowd: Crowd) -> int:
    """How many notices a crowd has had; the first to join has nobody to hear of."""
    return sum(member.requests for member in crowd.members)


def test_a_group_of_two_thousand_settles_while_nobody_else_waits(fresh: World, report: Report) -> None:
    """They join one after the other and each hears of it; the notices of many joins go together."""
    broker = fresh.broker
    for keeps in AGAIN:
        with Watch(broker, "a group of 2,000 that forms") as watch, Crowd(broker.address, MEMBERS) as crowd:
            used = broker.processor_seconds()
            crowd.send(lambda number: heartbeat(f"c{number}", ["Crowd"]))
            assert crowd.all_answered(30)
            assert crowd.codes == {ResponseCode.SUCCESS}
            assert wait_until(lambda: told(crowd) >= MEMBERS - 1, 20), told(crowd)
            time.sleep(1)
            used = broker.processor_seconds() - used
            assert used < 10 or used / slowness() < 10, used
            assert told(crowd) < 100 * MEMBERS, told(crowd)
            with Peer(broker.address) as peer:
                listed = peer.ask(request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "Crowd"}))
            assert len(json.loads(listed.body)["consumerIdList"]) == MEMBERS
        finish(watch, report, keeps=keeps)


@pytest.mark.parametrize(
    ("name", "members", "code", "said"),
    [
        ("consumer groups", 20_000, ResponseCode.INVALID_PARAMETER, "the client is in 20000 groups, "),
        ("producers", 90_000, ResponseCode.SYSTEM_ERROR, "JSON has more than 50000 members"),
    ],
    ids=["consumer groups", "producers"],
)
def test_one_heartbeat_of_very_many(
    fresh: World, report: Report, name: str, members: int, code: ResponseCode, said: str
) -> None:
    names = [f"N{number}" for number in range(members)]
    frame = (
        heartbeat("one", [], names)
        if name == "producers"
        else request(
            RequestCode.HEART_BEAT,
            {},
            dump({"clientID": "one", "consumerDataSet": [{"groupName": each} for each in names]}),
        )
    )
    with Watch(fresh.broker, f"a heartbeat of {members:,} {name}", size=len(frame)) as watch:
        with Peer(fresh.broker.address) as peer:
            refused = peer.ask(frame)
            assert refused.code == code
            assert said in refused.remark
            assert peer.ask(heartbeat("one", ["Small"])).code == ResponseCode.SUCCESS
    finish(watch, report)


# --- peers that send without end ---------------------------------------------------------------------------

FLOODING = 300
FLOODS_FOR = 2.0
FIELDS = {"topic": TOPIC, "queueId": "0"}


def _many_small(role: str) -> bytes:
    return (request(RequestCode.GET_MAX_OFFSET, FIELDS) if role == "broker" else route_request()) * 100


def _long_headers(_: str) -> bytes:
    more = {f"f{number}": "v" * 80 for number in range(400)}
    return request(RequestCode.GET_MAX_OFFSET, FIELDS | more, flag=ONEWAY) * 4


def _large_bodies(_: str) -> bytes:
    return request(RequestCode.GET_MAX_OFFSET, FIELDS, bytes(MIB // 4), flag=ONEWAY)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("make", [_many_small, _long_headers, _large_bodies], ids=lambda make: make.__name__)
def test_three_hundred_that_send_without_end_share_what_the_others_leave(
    fresh: World, report: Report, role: str, make: Callable[[str], bytes]
) -> None:
    """Each gets on, and the pair is served beside them."""
    served = fresh.served[role]
    what, to = make.__name__.strip("_").replace("_", " "), {"namesrv": "name server"}.get(role, role)
    with Watch(served, f"300 connections that send {what} to the {to}") as watch:
        with Crowd(served.address, FLOODING) as crowd:
            sent = flood(crowd, make(role), FLOODS_FOR)
            assert min(sent) > 0, sent
            assert len(crowd.open()) == FLOODING
            # The system buffers more slow requests than the server reads in seconds, so these are dropped. The small
            # ones have to be worked off after their senders have gone.
            crowd.resets = make is not _many_small
        assert wait_until(lambda: is_idle(served), 60)
    finish(watch, report, grows=BUDGET, keeps=BUDGET // 4)  # gaps that small objects have left in Python's heap stay


@pytest.mark.parametrize("role", ROLES)
def test_who_connects_without_end_keeps_nobody_out(fresh: World, report: Report, role: str) -> None:
    """Beside a hundred that send without end, so that the rounds of the loop are long: somebody new comes in."""
    served = fresh.served[role]
    host, _, port = served.address.rpartition(":")
    stop, made = threading.Event(), 0

    def connect() -> None:
        nonlocal made
        while not stop.is_set():
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), timeout=20, source_address=("127.0.0.3", 0)).close()
                made += 1

    first = request(RequestCode.GET_MAX_OFFSET, FIELDS) if role == "broker" else route_request()
    what = f"two that connect to the {'name server' if role == 'namesrv' else role} without end"
    new, known = [], []  # what somebody new waits, and somebody who was there before the crowd
    with Watch(served, what) as watch, Peer(served.address) as friend, Crowd(served.address, 100) as crowd:
        threads = [threading.Thread(target=connect, daemon=True) for _ in range(2)]
        threads.append(threading.Thread(target=flood, args=(crowd, _many_small(role), 5.0, stop), daemon=True))
        for thread in threads:
            thread.start()
        time.sleep(2)
        for _ in range(8):
            began = time.monotonic()
            assert ask_once(served.address, first).code == ResponseCode.SUCCESS  # though the lane is full
            new.append(time.monotonic() - began)
            began = time.monotonic()
            assert friend.ask(first).code == ResponseCode.SUCCESS
            known.append(time.monotonic() - began)
        stop.set()
        for thread in threads:
            thread.join()
    assert made > 500, made
    # The system asks once more after a second when the line is full for a moment; in half of the cases it is not.
    # To be taken in and to be answered are two rounds of the loop, whose length is told by those who are in. The
    # processor works the line off, and so the second is one of an ordinary machine, as it is where turns are judged.
    waited = statistics.median_high(new)
    assert waited < 1.0 or waited < max(slowness(), 3 * statistics.median(known)), (new, known)
    assert wait_until(lambda: is_idle(served), 60)
    finish(watch, report, grows=BUDGET, keeps=BUDGET // 2)


def is_idle(served: Served) -> bool:
    """Whether a server has next to nothing to do."""
    used = served.processor_seconds()
    time.sleep(0.3)
    return served.processor_seconds() - used < 0.1


def flood(crowd: Crowd, data: bytes, seconds: float, stop: threading.Event | None = None) -> list[int]:
    """Every member sends the same over and over, as fast as it is read; how many bytes each could send."""
    selector = selectors.DefaultSelector()
    sent = dict.fromkeys(crowd.members, 0)
    for member in crowd.members:
        selector.register(member.socket, selectors.EVENT_WRITE, member)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (stop and stop.is_set()):
        for key, _ in selector.select(0.05):
            at = sent[key.data] % len(data)
            with contextlib.suppress(BlockingIOError):
                sent[key.data] += key.data.socket.send(data[at : at + 256 * 1024], socket.MSG_DONTWAIT)
    selector.close()
    return list(sent.values())


# --- pulls that wait ---------------------------------------------------------------------------------------


def test_one_connection_cannot_take_long_polling_from_the_others(fresh: World, report: Report) -> None:
    """100,352 pulls of one connection: some are held, the others answered at once; another's pull is held."""
    address = fresh.broker.address
    with Peer(address) as attacker, Watch(fresh.broker, "100,352 pulls of one connection") as watch:
        assert attacker.ask(create_topic("Held", 1024)).code == ResponseCode.SUCCESS
        for group in range(98):
            pulls = b"".join(pull(f"H{group}", "Held", queue, suspend_ms=25_000) for queue in range(1024))
            attacker.attack([pulls], create_topic("Held", 1024))
        with Peer(address) as other:
            began = time.monotonic()
            answer = other.ask(pull("Other", "Held", 0, suspend_ms=1_000))
            assert answer.code == ResponseCode.PULL_NOT_FOUND
            assert time.monotonic() - began >= 0.9
    finish(watch, report)


def pulls_that_wait(broker: Served) -> int:
    """How many have come and have not been carried out, so that they may be held or not."""
    told = json.loads(ask_once(broker.address, request(RequestCode.GET_BROKER_RUNTIME_INFO)).body)
    return int(told["table"]["pullThreadPoolQueueSize"])


def test_ten_thousand_held_pulls_take_less_than_a_twentieth_of_a_core(fresh: World, report: Report) -> None:
    """Of 1,000 connections; beside the innocent pair, which goes on."""
    broker = fresh.broker
    with Peer(broker.address) as peer:
        assert peer.ask(create_topic("Held", 10)).code == ResponseCode.SUCCESS
    idle = broker.processor_seconds()
    time.sleep(2)
    idle = broker.processor_seconds() - idle
    for keeps in AGAIN:
        with Watch(broker, "10,000 held pulls") as watch, Crowd(broker.address, 1_000) as crowd:
            began = time.monotonic()
            crowd.send(lambda n: b"".join(pull(f"H{n}", "Held", queue, suspend_ms=HELD_FOR_MS) for queue in range(10)))
            crowd.send(lambda n: request(RequestCode.GET_MAX_OFFSET, {"topic": "Held", "queueId": "0"}))
            assert crowd.all_answered(20)
            assert wait_until(lambda: pulls_that_wait(broker) == 0, 20)
            used = broker.processor_seconds()
            time.sleep(2)
            used = (broker.processor_seconds() - used - idle) / 2
            answers = sum(member.answers for member in crowd.members)
            if (seconds := time.monotonic() - began) >= HELD_FOR_MS / 1000:
                raise LittleOverError(f"after {seconds:.0f} s pulls may have been answered as they should")
            assert used < 0.05 or used / slowness() < 0.05, (used, idle)
            assert answers == 1_000
        finish(watch, report, keeps=keeps)


# --- peers that do not read, or want no answer ---------------------------------------------------------------


def test_peers_that_do_not_read_have_a_bound(fresh: World, report: Report) -> None:
    """Fifty ask for large answers and read none of them."""
    broker = fresh.broker
    with Peer(broker.address) as peer:
        topics = [{"topicName": f"A-rather-long-name-of-a-topic-{number}"} for number in range(5_000)]
        frame = request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, dump({"topicConfigList": topics}))
        assert peer.ask(frame).code == ResponseCode.SUCCESS
    # Answers of half a megabyte come out of what the C library keeps for the next ones. How many there are at once is
    # chance, and so is the round that needs most of it: all together may leave what two may, and one of them nothing.
    before, left = broker.memory().now, list[int]()
    while len(left) < 2 or (left[-1] > SLACK and len(left) < 5):
        with Watch(broker, "50 peers that do not read") as watch:
            peers = [Peer(broker.address, receive_buffer=4096) for _ in range(50)]
            try:
                for _ in range(8):
                    for peer in peers:
                        peer.send(request(RequestCode.GET_ALL_TOPIC_CONFIG))
                time.sleep(3)
            finally:
                for peer in peers:
                    peer.close()
        left.append(finish(watch, report, grows=BUDGET // 2, keeps=AGAIN[0]).left)
    assert left[-1] <= SLACK, left
    assert broker.memory().now - before <= sum(AGAIN), left


def test_a_stop_does_not_wait_for_a_peer_that_does_not_read(fresh: World) -> None:
    broker = fresh.broker
    with Peer(broker.address) as peer:
        topics = [{"topicName": f"A-rather-long-name-of-a-topic-{number}"} for number in range(5_000)]
        peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, dump({"topicConfigList": topics})))
    with Peer(broker.address, receive_buffer=4096) as peer:
        peer.send(request(RequestCode.GET_ALL_TOPIC_CONFIG) * 20)
        time.sleep(1)
        assert broker.stop() <= 5
    fresh.restart()


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.HEART_BEAT,
        RequestCode.QUERY_MESSAGE,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    ],
    ids=lambda code: code.name,
)
def test_a_flood_that_wants_no_answer_has_a_bound(fresh: World, report: Report, code: RequestCode) -> None:
    """Each carries a megabyte that nobody needs."""
    frame = request(code, small_fields(code), bytes(MIB), flag=ONEWAY)
    with Watch(fresh.broker, f"a flood of {code.name} that wants no answer", size=len(frame)) as watch:
        with Peer(fresh.broker.address) as peer:
            for _ in range(400):
                if peer.is_open:
                    peer.send(frame)
        with Peer(fresh.broker.address) as peer:
            assert peer.ask(request(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})).code == 0
    finish(watch, report, grows=BUDGET)  # how many wait is a matter of who is faster, and the budget bounds it


def test_bodies_of_held_pulls_have_a_bound(fresh: World, report: Report) -> None:
    """A pull carries nothing; one that brings a megabyte, and is held, is not kept with it."""
    with Peer(fresh.broker.address) as peer:
        assert peer.ask(create_topic("Held", 1024)).code == ResponseCode.SUCCESS
        with Watch(fresh.broker, "held pulls with bodies of 1 MiB", size=MIB) as watch:
            last = request(RequestCode.GET_MAX_OFFSET, {"topic": "Held", "queueId": "0"})
            answers = peer.attack((_with_body("Fat", queue) for queue in range(500)), last)
            assert answers or not peer.is_open
    finish(watch, report)


def _with_body(group: str, queue: int) -> bytes:
    fields = small_fields(RequestCode.PULL_MESSAGE) | {
        "consumerGroup": group,
        "topic": "Held",
        "queueId": str(queue),
        "sysFlag": "6",
        "suspendTimeoutMillis": "25000",
    }
    return request(RequestCode.PULL_MESSAGE, fields, bytes(MIB))


def read_all(peer: Peer) -> list[Answer]:
    """What comes until the server closes."""
    answers = []
    try:
        while True:
            answers.append(peer.read())
    except Closed:
        return answers
