"""Heartbeats, goodbyes, and what members of a group hear of each other."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody, ProducerData
from rocketpy.wire.bodies.subscription import build
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.broker_sim.broker.kit import broker_and_client, client_of, heartbeat


async def test_RB5_a_heartbeat_registers_the_client_and_makes_the_retry_topic(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        answer = await client.heartbeat("g", "T")
        assert answer.code == 0
        assert answer.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        assert broker.clients.consumers.client_ids("g") == ["c1"]
        assert broker.clients.producers.groups() == ["p"]
        assert broker.topics.get("%RETRY%g").write_queue_nums == 1


async def test_RB5_members_hear_of_each_other(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, one):
        await one.heartbeat("g", "T", client_id="c1")
        one.received.clear()
        async with client_of(network, broker.address) as two:
            await two.heartbeat("g", "T", client_id="c2")
            await wait_all_tasks_blocked()
            assert [request.ext_fields["consumerGroup"] for request in one.received] == ["g"]
            assert one.received[0].code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            assert one.received[0].is_oneway
            one.received.clear()
            await two.heartbeat("g", "T", client_id="c2")
            await wait_all_tasks_blocked()
            assert one.received == []
        await wait_all_tasks_blocked()
        assert broker.clients.consumers.client_ids("g") == ["c1"]
        assert [request.code for request in one.received] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


async def test_RB5_the_second_version_leaves_known_subscriptions_out(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        full = await client.heartbeat("g", "T", heartbeat_fingerprint=7)
        assert full.ext_fields["IS_SUB_CHANGE"] == "false"
        short = await client.heartbeat("g", heartbeat_fingerprint=7, without_sub=True)
        assert short.ext_fields["IS_SUB_CHANGE"] == "false"
        assert broker.clients.consumers.subscription("g", "T") is not None
        other = await client.heartbeat("g", "T", "U", heartbeat_fingerprint=8)
        assert other.ext_fields["IS_SUB_CHANGE"] == "true"


async def test_RB5_a_broker_that_does_not_know_the_subscriptions_asks_for_them(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.heartbeat("g", heartbeat_fingerprint=7, without_sub=True)
        assert answer.ext_fields["IS_SUB_CHANGE"] == "true"


async def test_unregistering_leaves_the_groups(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
        assert (await client.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == 0
        assert broker.clients.consumers.client_ids("g") == []
        assert broker.clients.producers.groups() == []


async def test_threat_L3_a_client_that_goes_silent_is_forgotten_and_closed(autojump_clock: MockClock) -> None:
    async with broker_and_client(channel_expired_timeout=60_000) as (broker, client):
        await client.heartbeat("g", "T")
        await trio.sleep(75)
        assert broker.clients.consumers.client_ids("g") == []
        assert not client.connection.is_open


async def test_broken_heartbeats_are_answers(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for body in (b"", b"{", b"[]", b'{"clientID":7}{', b'{"consumerDataSet":[]}'):
            answer = await client.ask(RequestCode.HEART_BEAT, body=body)
            assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await client.heartbeat("g", client_id="")).code == ResponseCode.INVALID_PARAMETER
        assert (await client.heartbeat("../g", "T")).code == 0
        assert broker.groups.get("../g") is None
        assert broker.topics.get("%RETRY%../g") is None
        data = heartbeat("g", "T")
        data.consumer_data_set[0].subscription_data_set[0].topic = "a/b"
        assert (await client.ask(RequestCode.HEART_BEAT, body=data.encode())).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("wrong", ["tags", "topic"])
async def test_what_a_heartbeat_cannot_have_is_left_out_and_the_rest_is_noted(
    autojump_clock: MockClock, wrong: str
) -> None:
    async with broker_and_client() as (broker, client):
        data = heartbeat("g", "T", "U")
        data.consumer_data_set += heartbeat("other", "T").consumer_data_set
        bad = data.consumer_data_set[0].subscription_data_set[0]
        if wrong == "tags":
            bad.tags_set = {str(number) for number in range(2049)}
        else:
            bad.topic = "a/b"
        answer = await client.ask(RequestCode.HEART_BEAT, body=data.encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert ("the group g does not subscribe to T: " if wrong == "tags" else "the topic 'a/b'") in answer.remark
        consumers = broker.clients.consumers
        assert consumers.client_ids("g") == consumers.client_ids("other") == ["c1"]
        assert [*consumers.group("g").subscriptions] == ["U"]
        assert [*consumers.group("other").subscriptions] == ["T"]
        assert broker.clients.producers.groups() == ["p"]


async def test_a_group_that_is_full_costs_a_client_no_other_group(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, max_clients_per_group=1) as (broker, one):
        await one.heartbeat("full", "T", client_id="c1")
        async with client_of(network, broker.address) as two:
            data = heartbeat("full", "T", client_id="c2")
            data.consumer_data_set += heartbeat("g", "T").consumer_data_set
            answer = await two.ask(RequestCode.HEART_BEAT, body=data.encode())
            assert (answer.code, "raise maxClientsPerGroup" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
            assert broker.clients.consumers.client_ids("full") == ["c1"]
            assert broker.clients.consumers.client_ids("g") == ["c2"]


async def test_a_producer_group_that_is_full_costs_a_client_no_other_group(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, max_clients_per_group=1) as (broker, one):
        await one.heartbeat("g1", producer="full", client_id="c1")
        async with client_of(network, broker.address) as two:
            data = heartbeat("g2", producer="full", client_id="c2")
            data.producer_data_set += [ProducerData(group_name="p1"), ProducerData(group_name="p2")]
            answer = await two.ask(RequestCode.HEART_BEAT, body=data.encode())
            assert (answer.code, "raise maxClientsPerGroup" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
            assert sorted(broker.clients.producers.groups()) == ["full", "p1", "p2"]


@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), ("SQL92", ResponseCode.SYSTEM_ERROR)])
async def test_a_client_may_ask_whether_its_filter_is_known(autojump_clock: MockClock, kind: str, code: int) -> None:
    async with broker_and_client() as (_, client):
        body = CheckClientRequestBody(client_id="c", group="g", subscription_data=build("T", "a", expression_type=kind))
        assert (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())).code == code


async def test_threat_F14_a_code_that_nobody_knows_is_not_supported(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(7777)
        assert (answer.code, answer.remark) == (3, " request type 7777 not supported")
