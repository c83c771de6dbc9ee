"""Registrations while topics come and go, in pieces, and those who wait until the name servers have heard."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.bodies.registration import (
    PIECE_FIELD,
    Piece,
    RegisterBrokerBody,
    TopicConfigAndMappingSerializeWrapper,
    encode_steps,
)
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.headers.admin import CreateTopicRequestHeader
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.name_servers import registration
from rocketpy_broker_sim.broker.name_servers.registration_pieces import MOST_AT_ONCE, cut
from tests.broker_sim.broker.kit import Client, client_of
from tests.broker_sim.broker.test_registration import NameServer, name_servers, opened


def topic(name: str) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)


def fill(broker: Broker, count: int) -> list[str]:
    names = [f"Many-{n:05}" for n in range(count)]
    broker.topics.put_all([topic(name) for name in names])
    return names


def pieces_of(server: NameServer) -> list[tuple[str, DataVersion, set[str]]]:
    found = []
    for _, code, request in server.seen:
        if code == RequestCode.REGISTER_BROKER:
            body = RegisterBrokerBody.decode_any(request.body, version=request.version)
            wrapper = body.topic_config_serialize_wrapper
            found.append((request.ext_fields[PIECE_FIELD], wrapper.data_version, set(wrapper.topic_config_table)))
    return found


async def create(client: Client, name: str) -> None:
    header = CreateTopicRequestHeader(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    assert (await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())).code == 0


# --- topics that come and go -----------------------------------------------------------------------------


@pytest.mark.slow
async def test_topics_that_are_deleted_while_they_are_registered_do_not_end_the_broker(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        async with client_of(network, broker.address) as client:
            for n in range(111):
                await create(client, f"T{n}")
                # Somewhere within the tick that registers it.
                for _ in range(n % 16):
                    await trio.lowlevel.checkpoint()
                if n % 3 == 0:
                    await trio.sleep(0.01)
                assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"T{n}"})).code == 0
            assert (await client.send("T")).code == 0
            await trio.sleep(31)
        assert broker.registration.registered_with == [server.address]
        assert pieces_of(server)[-1][2] == set(broker.topics.all())


async def test_a_topic_that_is_deleted_at_the_checkpoint_of_its_registration_is_left_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        get, here = ConnectionPool.get, trio.lowlevel.current_trio_token()

        async def delete_then_get(pool: ConnectionPool, address: str, *, timeout: float) -> Connection:
            if trio.lowlevel.current_trio_token() is here:  # and not a cluster of other tests, in a thread
                broker.topics.delete("Gone")
            return await get(pool, address, timeout=timeout)

        monkeypatch.setattr(ConnectionPool, "get", delete_then_get)
        for n in range(3):
            broker.topics.put(topic("Gone"))
            broker.topics.put(topic(f"Stays-{n}"))
            await trio.sleep(1)
            assert broker.registration.registered_with == [server.address]
        await trio.sleep(31)
        assert pieces_of(server)[-1][2] == set(broker.topics.all()) >= {"Stays-0", "Stays-1", "Stays-2"}


async def test_a_topic_that_is_deleted_before_its_piece_is_made_is_left_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names have been taken by then, and others run before the first step."""
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        in_slices, here = registration.in_slices, trio.lowlevel.current_trio_token()

        async def delete_then_make(steps: Generator[None, None, RemotingCommand]) -> RemotingCommand:
            if trio.lowlevel.current_trio_token() is here:  # and not a cluster of other tests, in a thread
                broker.topics.delete("Gone")
            return await in_slices(steps)

        monkeypatch.setattr(registration, "in_slices", delete_then_make)
        broker.topics.put_all([topic("Gone"), topic("Stays")])
        await trio.sleep(1)
        assert any(names == {"Stays"} for _, _, names in pieces_of(server))
        await trio.sleep(31)
        assert pieces_of(server)[-1][2] == set(broker.topics.all())
        assert broker.registration.registered_with == [server.address]


# --- pieces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 7, 800])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 15, 799, 800, 801, 1601])
def test_names_are_cut_into_pieces_none_of_which_is_a_single_one(count: int, size: int) -> None:
    names = [str(n) for n in range(count)]
    pieces = cut(names, size)
    assert [name for piece in pieces for name in piece] == names
    assert count < 2 or min(len(piece) for piece in pieces) >= 2
    assert max(len(piece) for piece in pieces) <= size + 1


@pytest.mark.parametrize("compressed", [False, True])
async def test_with_split_registration_no_request_holds_more_than_the_settings_say(
    autojump_clock: MockClock, compressed: bool
) -> None:
    network = MemoryNetwork()
    changes = {"enable_split_registration": True, "split_registration_size": 5, "compressed_register": compressed}
    async with name_servers(network) as (server,), opened(network, [server.address], **changes) as broker:
        pieces = pieces_of(server)
        assert [text for text, _, _ in pieces] == [f"{n}/{len(pieces)}" for n in range(len(pieces))]
        assert all(2 <= len(names) <= 5 for _, _, names in pieces)
        assert set().union(*(names for _, _, names in pieces)) == set(broker.topics.all())
        assert sum(len(names) for _, _, names in pieces) == len(broker.topics)


async def test_only_the_last_piece_of_a_state_that_is_not_known_carries_its_version(autojump_clock: MockClock) -> None:
    """Else a name server that has heard half would say that nothing has changed, or change nothing it has."""
    network = MemoryNetwork()
    changes = {"enable_split_registration": True, "split_registration_size": 5}
    async with name_servers(network) as (server,), opened(network, [server.address], **changes) as broker:
        first = pieces_of(server)
        versions = [version for _, version, _ in first]
        assert versions[-1] == broker.topics.data_version
        assert all(one != other for n, one in enumerate(versions) for other in versions[:n])
        # What it has been told is told again under that very version: permissions that were wiped there stay wiped.
        await trio.sleep(11)
        again = pieces_of(server)[len(first) :]
        assert [version for _, version, _ in again] == [broker.topics.data_version] * len(first)


@pytest.mark.slow
async def test_many_topics_come_in_pieces_whatever_the_settings_say(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        names = fill(broker, MOST_AT_ONCE)
        await trio.sleep(12)
        pieces = [each for each in pieces_of(server) if "/" in each[0] and each[0] != "0/1"]
        assert max(len(each[2]) for each in pieces) <= 801
        assert set().union(*(each[2] for each in pieces)) >= set(names)


async def test_what_changes_between_two_pieces_is_told_between_them(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    changes = {"enable_split_registration": True, "split_registration_size": 2}
    async with name_servers(network) as (server,), opened(network, [server.address], **changes) as broker:
        await trio.sleep(9.99)
        begun = len(pieces_of(server))
        while len(pieces_of(server)) < begun + 2:
            await trio.lowlevel.checkpoint()
            autojump_clock.jump(0.000_1)
        broker.topics.put(topic("Meanwhile"))
        await trio.sleep(1)
        texts = [(text, "Meanwhile" in names) for text, _, names in pieces_of(server)[begun:]]
        place = texts.index(("changes", True))
        assert 0 < place < len(texts) - 1


async def test_a_piece_that_is_refused_is_followed_by_all_of_them_later(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    changes = {"enable_split_registration": True, "split_registration_size": 5}
    async with name_servers(network) as (server,), opened(network, [server.address], **changes) as broker:
        server.code = ResponseCode.SYSTEM_ERROR
        await trio.sleep(11)
        assert broker.registration.registered_with == []
        server.code, begun = ResponseCode.SUCCESS, len(pieces_of(server))
        await trio.sleep(11)
        assert broker.registration.registered_with == [server.address]
        assert set().union(*(names for _, _, names in pieces_of(server)[begun:])) == set(broker.topics.all())


async def test_topics_that_change_all_the_time_do_not_keep_all_from_being_told(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        for n in range(80):
            broker.topics.put(topic(f"T{n}"))
            await trio.sleep(1)
        assert len([text for text, _, _ in pieces_of(server) if text == "0/1"]) >= 3


def test_the_body_made_in_steps_is_the_body_itself() -> None:
    topics = [
        topic("plain"),
        TopicConfig(topic_name='odd"\\é', order=True, perm=2, topic_sys_flag=3, attributes={"+a": 'b"'}),
        TopicConfig(topic_name="multi", topic_filter_type=TopicFilterType.MULTI_TAG),
    ]
    wrapper = TopicConfigAndMappingSerializeWrapper(
        topic_config_table={each.topic_name: each for each in topics}, data_version=DataVersion(counter=7)
    )
    at_once = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
    wrapper.mapping_data_version.timestamp = 0
    steps = encode_steps(topics, wrapper.data_version)
    assert (
        re.sub(rb'("mappingDataVersion":.*"timestamp":)[0-9]+', rb"\g<1>0", run_steps(steps), count=1)
        == at_once.encode()
    )
    packed = run_steps(encode_steps(topics, wrapper.data_version, compressed=True))
    assert zlib.decompress(packed) == zlib.decompress(at_once.encode_compressed(with_attributes=False))


def test_the_body_is_made_in_steps_of_some_topics() -> None:
    topics = [topic(f"T{n}") for n in range(800)]
    for compressed in (False, True):
        steps = encode_steps(topics, DataVersion(counter=7), compressed=compressed)
        count = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                data = end.value
                break
            count += 1
        assert count >= 12
        body = RegisterBrokerBody.decode_any(data, version=400, compressed=compressed)
        assert list(body.topic_config_serialize_wrapper.topic_config_table.values()) == topics
        assert body.topic_config_serialize_wrapper.data_version.counter == 7


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("0/1", Piece(index=0, count=1)),
        ("62/63", Piece(index=62, count=63)),
        ("changes", Piece()),
        *((bad, None) for bad in (None, "", "1/1", "/", "-1/2", "1", "1/2/3", "x/y", "9999999/99999999", "²/3")),
    ],
)
def test_which_piece_a_peer_says_it_is(text: str | None, piece: Piece | None) -> None:
    assert Piece.from_text(text) == piece
    if piece is not None:
        assert Piece.from_text(piece.to_text()) == piece


# --- those who wait --------------------------------------------------------------------------------------


async def heard(broker: Broker, name: str) -> float:
    """Seconds until the name servers have heard, as the broker is told."""
    began, done = trio.current_time(), trio.Event()
    assert broker.registration is not None
    broker.registration.when_announced(name, done.set)
    await done.wait()
    return trio.current_time() - began


async def registered_with_both(broker: Broker) -> None:
    """It is open when the first of them has answered."""
    assert broker.registration is not None
    await broker.registration.wait_until(lambda addresses: len(addresses) == 2)


async def test_who_waits_goes_on_when_every_name_server_has_heard_of_the_topic(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as servers:
        async with opened(network, [each.address for each in servers]) as broker:
            await registered_with_both(broker)
            broker.topics.put(topic("T"))
            assert await heard(broker, "T") < 0.01
            assert all("T" in pieces_of(each)[-1][2] for each in servers)
            assert await heard(broker, "T") == 0, "they have heard already"


async def test_nobody_waits_when_no_name_server_has_the_broker(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,):
        network.refuse(server.address)
        async with opened(network, [server.address]) as broker:
            broker.topics.put(topic("T"))
            assert await heard(broker, "T") == 0
    async with opened(network, []) as broker:
        broker.topics.put(topic("T"))
        assert await heard(broker, "T") == 0


async def test_nobody_waits_longer_than_half_a_second_for_a_name_server_that_hangs(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network, 2) as (good, mute):
        async with opened(network, [good.address, mute.address]) as broker:
            await registered_with_both(broker)
            mute.silent = True
            broker.topics.put(topic("T1"))
            assert await heard(broker, "T1") == pytest.approx(0.5)
            # It still hangs in the one before.
            broker.topics.put(topic("T2"))
            assert await heard(broker, "T2") == pytest.approx(0.5)
            assert {"T1", "T2"} <= set().union(*(names for _, _, names in pieces_of(good)))


async def test_who_waits_goes_on_at_once_when_the_name_server_refuses_or_hangs_up(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with name_servers(network) as (server,), opened(network, [server.address]) as broker:
        server.code = ResponseCode.SYSTEM_ERROR
        broker.topics.put(topic("T1"))
        assert await heard(broker, "T1") < 0.1
        server.code = ResponseCode.SUCCESS
        await trio.sleep(15)
        server.silent = True
        broker.topics.put(topic("T2"))
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                assert await heard(broker, "T2") < 0.3

            nursery.start_soon(wait)
            await trio.sleep(0.1)
            network.cut(server.address)


async def test_who_waits_goes_on_when_the_broker_stops(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    ended = []
    async with name_servers(network) as (server,):
        async with opened(network, [server.address]) as broker:
            server.silent = True
            broker.topics.put(topic("T"))
            broker.registration.when_announced("T", lambda: ended.append(1))
            assert ended == []
        assert ended == [1]
