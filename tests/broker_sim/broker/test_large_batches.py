"""Batches of many messages: what is too many, answers within bounds, and others that are served meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from rocketpy.errors import StoreError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.batch import BatchItem, encode_batch_items
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.serialize import encode_command
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.putting.batch_items import MOST_ITEMS
from rocketpy_broker_sim.serving.slices import SLICE_SECONDS
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import bodies, broker_and_client, client_of, send_fields
from tests.broker_sim.broker.test_plain_runs import KEY, Wire, send, wire_to

ROOM = {"mapped_file_size_commit_log": 8 << 20, "max_hash_slot_num": 5000, "max_index_num": 50_000}


def batch(count: int, properties: bytes = b"", size: int = 1) -> bytes:
    return encode_batch_items([BatchItem(0, b"x" * size, properties)] * count)


def batch_send(
    opaque: int, body: bytes, *, code: int = RequestCode.SEND_BATCH_MESSAGE, flag: int = 0
) -> RemotingCommand:
    return RemotingCommand(code, send_fields("T", "WAIT\x01true\x02", batch=True), body, opaque, flag)


@pytest.mark.parametrize("count", [MOST_ITEMS + 1, 33_000])
async def test_a_batch_whose_answer_would_be_too_large_is_refused_before_it_is_stored(
    autojump_clock: MockClock, count: int
) -> None:
    async with broker_and_client(**ROOM) as (broker, client):
        await client.send()
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), batch(count))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert str(MOST_ITEMS) in answer.remark
        assert broker.store.reads.max_offset("T", 0) == 1


@pytest.mark.parametrize("host", [b"\x7f\x00\x00\x01\x00\x00\x2a\x9f", bytes(19) + b"\x01"])
async def test_the_answer_to_the_largest_batch_is_one_that_clients_accept(
    autojump_clock: MockClock, host: bytes
) -> None:
    async with broker_and_client(**ROOM) as (broker, client):
        broker.identity.store_host = host
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), batch(MOST_ITEMS))
        assert answer.code == 0
        assert len(answer.ext_fields["msgId"].split(",")) == MOST_ITEMS
        assert len(encode_command(answer)) < DEFAULT_LIMITS.max_header
        while broker.store.reads.max_offset("T", 0) < MOST_ITEMS:
            await trio.lowlevel.checkpoint()
        assert broker.store.reads.max_offset("T", 0) == MOST_ITEMS


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
async def test_others_are_served_while_a_large_batch_is_read(autojump_clock: MockClock, code: int) -> None:
    network, done = MemoryNetwork(), []
    async with broker_and_client(network, **ROOM) as (broker, client), client_of(network, broker.address) as other:
        await client.send()

        async def large() -> None:
            # Each of its items says what only a broker may say, and is taken apart for that.
            answer = await client.ask(code, send_fields("T", batch=True), batch(MOST_ITEMS, b"REAL_TOPIC\x01x\x02"))
            assert answer.code == 0
            done.append("large")

        async def small() -> None:
            for _ in range(3):
                assert (await other.send(body=b"small")).code == 0
                done.append("small")

        broker.slices._clock = Ticks()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(large)
            await trio.lowlevel.checkpoint()
            nursery.start_soon(small)
        assert done == ["small"] * 3 + ["large"]


class Ticks:
    """Processor time of which every look takes a millisecond, or so many seconds."""

    def __init__(self, step: float = 0.001) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


async def test_a_large_batch_whose_header_is_known_is_read_in_slices(autojump_clock: MockClock) -> None:
    async with broker_and_client(**ROOM) as (broker, client):
        broker.slices._clock = Ticks()
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, len(broker.slices))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            for size in (1, 1, 5000):
                fields = send_fields("T", KEY, batch=True)
                answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, batch(size, b"REAL_TOPIC\x01x\x02"))
                assert answer.code == 0
            nursery.cancel_scope.cancel()
        assert most == 1


async def test_what_a_connection_sends_behind_a_large_batch_is_stored_behind_it(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, **ROOM) as (broker, client):
        wire: Wire = await wire_to(network, broker)
        await wire.begin()
        broker.slices._clock = Ticks()
        await wire.ask(send(1, body=b"before"), batch_send(2, batch(3000)), send(3, body=b"behind"))
        assert bodies(await client.pull(offset=1)) == [b"before", *[b"x"] * 31]
        assert bodies(await client.pull(offset=3002)) == [b"behind"]


async def test_a_large_batch_that_was_sent_one_way_is_stored_though_its_connection_closes(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network, **ROOM) as (broker, client):
        await client.send()
        broker.slices._clock = Ticks()
        stream = await network.open_stream(*parse_address(broker.address))
        await stream.send_all(encode_command(batch_send(1, batch(3000), flag=ONEWAY_FLAG)))
        await stream.aclose()
        await trio.sleep(1)
        assert broker.store.reads.max_offset("T", 0) == 3001


@pytest.mark.parametrize("count", [100, 5000])
async def test_a_batch_that_the_disk_refuses_is_refused_whole_and_stored_when_there_is_room(
    autojump_clock: MockClock, count: int
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **ROOM) as (broker, client):
        await client.send()
        broker.slices._clock = Ticks()
        fields = send_fields("T", batch=True)
        with storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
            answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, batch(count))
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.store.reads.max_offset("T", 0) == 1
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, batch(count))
        assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "1")
        await trio.sleep(0.1)
        assert broker.store.reads.max_offset("T", 0) == 1 + count


SERVICES: dict[str, Callable[[Broker], object]] = {
    "delivers": lambda broker: broker.storing.commit(),
    "catches up": lambda broker: broker.storing.turn.make_readable(),
    "serves pulls": lambda broker: broker.lanes.finish(),
}
"""What tasks of the broker do between two slices."""


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("service", SERVICES)
async def test_a_large_batch_that_the_disk_refuses_is_refused_whatever_a_service_does_meanwhile(
    autojump_clock: MockClock, service: str, flush: str
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_disk_type=flush, **ROOM) as (broker, client):
        await client.send()
        broker.slices._clock = Ticks(SLICE_SECONDS)  # every step ends a slice

        async def serve() -> None:
            for _ in range(200):
                with suppress(StoreError):
                    SERVICES[service](broker)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            with storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
                answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), batch(3000))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await client.send(body=b"after")).ext_fields["queueOffset"] == "1"
