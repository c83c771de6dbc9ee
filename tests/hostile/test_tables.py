"""Servers that hold much already: what one request may then ask for, and how long they take to start."""

from __future__ import annotations

import itertools
import time

import pytest

from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.hostile.frames import MIB, request
from tests.hostile.innocent import GROUP
from tests.hostile.measure import Watch
from tests.hostile.peer import Peer, ask_once, wait_until
from tests.hostile.report import Report
from tests.hostile.samples import item, small_fields
from tests.hostile.shapes import dump
from tests.hostile.test_crowds import finish
from tests.hostile.world import Served, World
from tests.pace import slowness

pytestmark = [
    pytest.mark.quiet("measures turns, waits and memory of servers"),
    pytest.mark.matrix,
    pytest.mark.slow,
    pytest.mark.waits("entries of a server's tables grow old by the second"),
]

TOPICS = 50_000
STARTS_WITHIN = 4.7
"""Seconds of processor time of an ordinary machine; the start of a command has 5, but has its imports to do as well."""
CHAIN = 100_000
TABLES = 64 * MIB
"""What 50,000 topics may take: they are there afterwards, as was asked."""


def test_fifty_thousand_topics_are_made_registered_listed_and_read_at_the_next_start(
    fresh: World, report: Report
) -> None:
    """No request for all of them, and no registration, holds the loop; the name server gives out the last of them."""
    broker, namesrv = fresh.broker, fresh.namesrv
    registered = Watch(namesrv, "50,000 topics are registered")
    with registered, Peer(broker.address) as peer, Watch(broker, "50,000 topics are made") as watch:
        for start in range(0, TOPICS, 5_000):
            topics = [{"topicName": f"Topic-{number}"} for number in range(start, start + 5_000)]
            answer = peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, dump({"topicConfigList": topics})))
            assert answer.code == ResponseCode.SUCCESS, answer
    last = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": f"Topic-{TOPICS - 1}"})
    assert wait_until(lambda: ask_once(namesrv.address, last).code == ResponseCode.SUCCESS, 60)
    finish(watch, report, keeps=TABLES)
    finish(registered, report, keeps=TABLES)

    lists = [
        (broker, RequestCode.GET_ALL_TOPIC_CONFIG, {}),
        (broker, RequestCode.GET_BROKER_RUNTIME_INFO, {}),
        (broker, RequestCode.CLEAN_UNUSED_TOPIC, {}),
        (namesrv, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
        (namesrv, RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}),
        (namesrv, RequestCode.GET_UNIT_TOPIC_LIST, {}),
        (namesrv, RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}),
        (namesrv, RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}),
        (namesrv, RequestCode.UNREGISTER_BROKER, small_fields(RequestCode.UNREGISTER_BROKER)),
    ]
    settings = {"readQueueNums": 16, "writeQueueNums": 16, "perm": 6, "topicFilterType": "SINGLE_TAG", "order": False}
    table = {name: {"topicName": name} | settings for name in (f"Topic-{number}" for number in range(TOPICS))}
    body = dump({"topicConfigSerializeWrapper": {"topicConfigTable": table}})
    frame = request(RequestCode.REGISTER_BROKER, small_fields(RequestCode.REGISTER_BROKER), body)
    with Peer(namesrv.address) as other:
        # A second broker with all of them, which is the one that is unregistered.
        assert other.ask(frame).code == ResponseCode.SUCCESS
        for served, code, fields in lists:
            with Peer(served.address) as peer, Watch(served, f"{code.name} of 50,000 topics") as watch:
                assert peer.ask(request(code, fields)).code == ResponseCode.SUCCESS
            finish(watch, report, keeps=TABLES)
    seconds = restarted(broker, namesrv.address)
    assert seconds <= STARTS_WITHIN or seconds / slowness() <= STARTS_WITHIN, seconds


def restarted(broker: Served, name_server: str) -> float:
    """Stop a broker and start it on the same store; returns the processor time that it needs until it serves."""
    broker.stop()
    broker.start(name_server=name_server, same_store=True)
    return broker.processor_seconds()


def test_a_query_along_a_chain_of_keys_with_one_hash(fresh: World, report: Report) -> None:
    """100,000 entries whose keys all have the hash of the one that is asked for, all of them later."""
    broker = fresh.broker
    alike = ["".join(parts) for parts in itertools.product(("Aa", "BB"), repeat=11)]
    properties = b"KEYS\x01" + " ".join(alike[:1_000]).encode() + b"\x02"
    with Peer(broker.address) as peer:
        fields = small_fields(RequestCode.SEND_BATCH_MESSAGE) | {"b": "Chain"}
        assert peer.ask(request(RequestCode.SEND_BATCH_MESSAGE, fields, item(b"x"))).code == ResponseCode.SUCCESS
        first = str(int(time.time() * 1000) + 200)
        time.sleep(2.1)  # entries tell their time in seconds
        for _ in range(CHAIN // 10_000):
            answer = peer.ask(request(RequestCode.SEND_BATCH_MESSAGE, fields, item(b"x", properties) * 10))
            assert answer.code == ResponseCode.SUCCESS, answer
        time.sleep(1)
        wanted = small_fields(RequestCode.QUERY_MESSAGE) | {"topic": "Chain", "key": alike[-1], "endTimestamp": first}
        with Watch(broker, "a query along 100,000 keys with one hash") as watch:
            assert peer.ask(request(RequestCode.QUERY_MESSAGE, wanted)).code in (
                ResponseCode.SUCCESS,
                ResponseCode.QUERY_NOT_FOUND,
            )
    finish(watch, report)


def test_new_groups_cost_the_same_however_many_there_are(fresh: World, report: Report) -> None:
    """5,000 come by the first look at each, 20,000 by a list, and then 5,000 as before."""
    broker = fresh.broker

    def make(prefix: str) -> float:
        """Processor time that 5,000 take, in seconds of an ordinary machine."""
        used = broker.processor_seconds()
        frames = (
            request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": f"{prefix}-{number}"})
            for number in range(5_000)
        )
        last = request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": GROUP})
        assert len(peer.attack(frames, last)) == 5_001
        return (broker.processor_seconds() - used) / slowness()

    with Peer(broker.address) as peer, Watch(broker, "30,000 new groups") as watch:
        first = make("First")
        for start in range(0, 20_000, 2_000):
            groups = [{"groupName": f"Listed-{number}"} for number in range(start, start + 2_000)]
            frame = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, dump({"groupConfigList": groups}))
            assert peer.ask(frame).code == ResponseCode.SUCCESS
        later = make("Later")
    finish(watch, report, keeps=TABLES)
    assert first < 1.5, (first, later)
    assert later < 2 * first + 0.5, (first, later)


def test_topics_that_come_and_go_do_not_end_the_broker(fresh: World, report: Report) -> None:
    """500 are made and deleted, while each change is registered with the name server."""
    broker = fresh.broker
    create = small_fields(RequestCode.UPDATE_AND_CREATE_TOPIC)
    with Peer(broker.address) as peer, Watch(broker, "500 topics that come and go") as watch:
        for number in range(500):
            name = f"Gone-{number % 50}"
            made = peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC, create | {"topic": name}))
            gone = peer.ask(request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name}))
            assert (made.code, gone.code) == (0, 0)
    finish(watch, report)


def test_what_administrators_ask_of_many_groups_and_queues(fresh: World, report: Report) -> None:
    """5,000 groups with offsets in one topic, and a topic with 32,768 queues."""
    broker, wide = fresh.broker, "Wide"
    commit = small_fields(RequestCode.UPDATE_CONSUMER_OFFSET) | {"topic": "Many", "commitOffset": "1"}
    create = small_fields(RequestCode.UPDATE_AND_CREATE_TOPIC)
    with Peer(broker.address) as peer, Watch(broker, "5,000 groups with offsets") as watch:
        for name, queues in (("Many", "4"), (wide, "32768")):
            fields = create | {"topic": name, "readQueueNums": queues, "writeQueueNums": queues}
            assert peer.ask(request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == ResponseCode.SUCCESS
        groups = [f"Group-{number}" for number in range(5_000)]
        for start in range(0, len(groups), 1_000):
            body = dump({"groupConfigList": [{"groupName": name} for name in groups[start : start + 1_000]]})
            frame = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, body)
            assert peer.ask(frame).code == ResponseCode.SUCCESS
        frames = (
            request(RequestCode.UPDATE_CONSUMER_OFFSET, commit | {"consumerGroup": name, "queueId": str(queue)})
            for name in groups
            for queue in range(2)
        )
        last = request(RequestCode.GET_MAX_OFFSET, {"topic": "Many", "queueId": "0"})
        assert peer.attack(frames, last)[-1].code == ResponseCode.SUCCESS
    finish(watch, report, keeps=TABLES)
    asked = [
        (RequestCode.GET_ALL_CONSUMER_OFFSET, {}),
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "Many"}),
        (RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "Many", "compareGroup": groups[0]}),
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": groups[0], "destGroup": "Copy"}),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": wide}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": wide, "group": groups[0]}),
        (RequestCode.GET_BROKER_CONSUME_STATS, small_fields(RequestCode.GET_BROKER_CONSUME_STATS)),
    ]
    for code, fields in asked:
        with Peer(broker.address) as peer, Watch(broker, f"{code.name} of 5,000 groups, 32,768 queues") as watch:
            assert peer.ask(request(code, fields)).code == ResponseCode.SUCCESS, code
        finish(watch, report, keeps=TABLES)
