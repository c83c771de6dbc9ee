"""The pool: one dial at a time, typed failures, back-off, replacement, idle close."""

from __future__ import annotations

import itertools
import logging
import signal
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ClientClosedError, ConfigError, ConnectError, ConnectionLostError, RequestTimeoutError
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.seams import set_random_seed
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.remoting.helpers import ECHO, PARK, Peer, running_server


async def test_a_connection_is_opened_once_and_shared(network: Network) -> None:
    async with running_server(network) as server, ConnectionPool(network).open() as pool:
        (address,) = server.addresses
        assert pool.nowait(address) is None
        found: list[Connection] = []

        async def get() -> None:
            found.append(await pool.get(address, timeout=5))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(get)
        assert len(set(found)) == 1
        assert pool.nowait(address) is found[0]
        assert pool.addresses() == [address]
        assert (await found[0].request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
        assert found[0].address == address
        assert (pool.statistics().dials, pool.statistics().open, pool.statistics().dialling) == (1, 1, 0)


async def test_R2_a_failed_connect_is_an_error_of_its_own(network: Network) -> None:
    async with running_server(network) as server:
        (address,) = server.addresses
    async with ConnectionPool(network).open() as pool:
        with pytest.raises(ConnectError, match="is the server up") as caught:
            await pool.get(address, timeout=5)
        assert caught.value.address == address
        assert isinstance(caught.value.__cause__, ConnectError)
        assert isinstance(caught.value.__cause__.__cause__, OSError)
        assert pool.statistics().failures == 1


async def test_R2_an_unanswered_connect_ends_by_the_connect_timeout(memory: MemoryNetwork, clock: MockClock) -> None:
    memory.hang("host:1")
    async with ConnectionPool(memory, connect_timeout=2).open() as pool:
        begun = trio.current_time()
        with pytest.raises(ConnectError, match="no answer within 2 s"):
            await pool.get("host:1", timeout=10)
        assert trio.current_time() - begun == pytest.approx(2)


async def test_a_caller_may_have_less_time_than_the_dial(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server, ConnectionPool(memory, connect_timeout=9).open() as pool:
        (address,) = server.addresses
        memory.hang(address)
        with pytest.raises(RequestTimeoutError, match="nothing was sent"):
            await pool.get(address, timeout=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: pool.get(address, timeout=9))
            await wait_all_tasks_blocked()
            memory.heal(address)
        assert pool.statistics().dials == 1


async def test_a_cancelled_caller_leaves_the_dial_to_the_others(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        memory.hang(address)
        async with trio.open_nursery() as others:
            others.start_soon(lambda: pool.get(address, timeout=5))
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: pool.get(address, timeout=5))
                    await wait_all_tasks_blocked()
                    scope.cancel()
            memory.heal(address)
        assert pool.nowait(address) is not None
        assert pool.statistics().dials == 1


async def test_dials_of_a_dead_address_come_more_rarely_and_never_more_than_three_seconds_apart(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    set_random_seed(7)
    times: list[float] = []
    async with ConnectionPool(memory).open() as pool:
        while trio.current_time() < 600:
            dials = pool.statistics().dials
            with pytest.raises(ConnectError) as caught:
                await pool.get("dead:1", timeout=60)
            assert pool.statistics().dials == dials + 1
            assert "not tried again for" in str(caught.value)
            times.append(trio.current_time())
            await trio.sleep(0.01)
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(pause <= 3.02 for pause in pauses)
        assert sum(pauses[20:]) / len(pauses[20:]) > 2
        assert pauses[0] < 0.2
        assert max(pauses[:4]) < 1.5
        assert all(first + second >= 1 for first, second in itertools.pairwise(pauses))
        assert pool.statistics().addresses_failing == 1


async def test_too_early_a_try_fails_at_once(memory: MemoryNetwork, clock: MockClock) -> None:
    set_random_seed(1)
    async with ConnectionPool(memory).open() as pool:
        for _ in range(12):
            with pytest.raises(ConnectError):
                await pool.get("dead:1", timeout=60)
        dials, begun = pool.statistics().dials, trio.current_time()
        with pytest.raises(ConnectError, match=r"not tried again for [0-9.]+ s"):
            await pool.get("dead:1", timeout=0.001)
        assert pool.statistics().dials == dials
        assert trio.current_time() - begun < 0.01


@pytest.mark.parametrize("seed", range(5))
async def test_a_server_that_was_away_for_long_is_used_within_three_seconds(
    memory: MemoryNetwork, clock: MockClock, seed: int
) -> None:
    set_random_seed(seed)
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        memory.refuse(address)
        while trio.current_time() < 300:
            with pytest.raises(ConnectError):
                await pool.get(address, timeout=60)
        memory.heal(address)
        back = trio.current_time()
        await pool.get(address, timeout=60)
        assert trio.current_time() - back <= 3.01


async def test_a_server_that_comes_back_is_found_again(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        memory.refuse(address)
        for _ in range(4):
            with pytest.raises(ConnectError):
                await pool.get(address, timeout=30)
        memory.heal(address)
        connection = await pool.get(address, timeout=30)
        assert (await connection.request(RemotingCommand(ECHO), timeout=1)).code == 0
        assert pool.statistics().addresses_failing == 0


async def test_a_lost_connection_is_replaced_on_the_next_get(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        first = await pool.get(address, timeout=5)
        await first.request(RemotingCommand(ECHO), timeout=1)
        memory.cut(address)
        await wait_all_tasks_blocked()
        assert not first.is_open
        assert pool.nowait(address) is None
        begun = trio.current_time()
        second = await pool.get(address, timeout=5)
        assert second is not first
        assert trio.current_time() == begun
        assert (await second.request(RemotingCommand(ECHO), timeout=1)).code == 0


async def test_a_peer_that_drops_connections_at_once_is_backed_off_from(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    (listener,) = await memory.listen("127.0.0.1", 5000)

    async def slam() -> None:
        while True:
            await trio.aclose_forcefully(await listener.accept())

    async with ConnectionPool(memory).open() as pool, trio.open_nursery() as nursery:
        nursery.start_soon(slam)
        while trio.current_time() < 300:
            try:
                connection = await pool.get("127.0.0.1:5000", timeout=60)
                await connection.request(RemotingCommand(ECHO), timeout=60)
            except (ConnectError, ConnectionLostError):
                continue
        assert 5 < pool.statistics().dials < 150
        assert pool.statistics().failures == pool.statistics().dials
        nursery.cancel_scope.cancel()


async def test_idle_connections_are_closed(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server, ConnectionPool(memory, idle_timeout=60).open() as pool:
        (address,) = server.addresses
        connection = await pool.get(address, timeout=5)
        for _ in range(4):
            await trio.sleep(50)
            await connection.request(RemotingCommand(ECHO), timeout=1)
        assert connection.is_open
        await trio.sleep(61)
        assert not connection.is_open
        assert "was idle for 60 s" in str(connection.error)
        assert pool.statistics().open == 0
        assert await pool.get(address, timeout=5) is not connection


async def test_a_request_on_its_way_keeps_a_connection_from_being_idle(memory: MemoryNetwork, clock: MockClock) -> None:
    peer = Peer()
    async with running_server(memory, peer) as server, ConnectionPool(memory, idle_timeout=10).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.request(RemotingCommand(PARK), timeout=40))
            await trio.sleep(30)
            assert connection.is_open
            peer.answer_parked()


async def test_a_discarded_address_is_closed_and_may_be_dialled_again(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        connection = await pool.get(address, timeout=5)
        pool.discard(address)
        pool.discard(address)
        assert not connection.is_open
        assert await pool.get(address, timeout=5) is not connection


async def test_an_address_discarded_while_it_is_dialled_is_not_kept(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        memory.hang(address)

        async def get() -> None:
            with pytest.raises(ConnectError):
                await pool.get(address, timeout=5)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(get)
            await wait_all_tasks_blocked()
            pool.discard(address)
            memory.heal(address)
        assert pool.addresses() == []
        await wait_all_tasks_blocked()
        assert not server.connections


def test_ctrl_c_while_a_dial_is_started_leaves_the_address_to_be_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        async with running_server(network) as server, ConnectionPool(network).open() as pool:
            (address,) = server.addresses
            dial = pool._dial

            def struck(peer: Any) -> Any:
                monkeypatch.undo()
                signal.raise_signal(signal.SIGINT)
                return dial(peer)

            monkeypatch.setattr(pool, "_dial", struck)
            with pytest.raises(KeyboardInterrupt):
                await pool.get(address, timeout=5)
            assert (await pool.get(address, timeout=5)).is_open

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_requests_of_the_peer_go_to_the_handler(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server:
        async with ConnectionPool(memory, handler=Peer()).open() as pool:
            await pool.get(server.addresses[0], timeout=5)
            await wait_all_tasks_blocked()
            (theirs,) = server.connections
            assert (await theirs.request(RemotingCommand(ECHO, body=b"1"), timeout=1)).body == b"1"


async def test_threat_F17_a_client_refuses_requests_that_only_servers_serve(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)
        await wait_all_tasks_blocked()
        (theirs,) = server.connections
        answer = await theirs.request(RemotingCommand(10), timeout=1)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert connection.is_open


async def test_a_closed_pool_says_so(memory: MemoryNetwork) -> None:
    async with running_server(memory) as server:
        pool = ConnectionPool(memory)
        with pytest.raises(ClientClosedError):
            await pool.get(server.addresses[0], timeout=1)
        async with pool.open():
            connection = await pool.get(server.addresses[0], timeout=1)
        assert not connection.is_open
        with pytest.raises(ClientClosedError):
            await pool.get(server.addresses[0], timeout=1)


async def test_what_is_no_address_is_a_config_error(memory: MemoryNetwork) -> None:
    async with ConnectionPool(memory).open() as pool:
        with pytest.raises(ConfigError):
            await pool.get("nowhere", timeout=1)


async def test_a_failing_address_is_logged_once(
    memory: MemoryNetwork, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with ConnectionPool(memory).open() as pool:
        for _ in range(10):
            with pytest.raises(ConnectError):
                await pool.get("dead:1", timeout=60)
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 1


def test_full_jitter_doubles_its_ceiling_and_stays_below_it() -> None:
    jitter = FullJitter(0.1, 30)
    assert [jitter.ceiling(failures) for failures in (0, 1, 2, 3, 9, 10, 10_000)] == [
        0.1, 0.1, 0.2, 0.4, 25.6, 30, 30,
    ]  # fmt: skip
    set_random_seed(3)
    waits = [jitter.after(10) for _ in range(1000)]
    assert 0 <= min(waits) < 1
    assert 29 < max(waits) < 30


async def test_retries_run_in_virtual_time_and_keep_the_last_error(clock: MockClock) -> None:
    set_random_seed(5)
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise ConnectError(f"try {tries}") if tries < 20 else ConfigError("enough")

    with pytest.raises(ConnectError, match="try 6"):
        await retrying(attempts=6)(fail)
    with pytest.raises(ConfigError):
        await retrying(attempts=60)(fail)
    assert tries == 20
    assert trio.current_time() > 10


async def test_the_table_of_addresses_is_bounded(memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.remoting.pool._MAX_PEERS", 10)
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        (address,) = server.addresses
        await pool.get(address, timeout=5)
        for port in range(1, 40):
            with pytest.raises(ConnectError):
                await pool.get(f"dead:{port}", timeout=5)
            assert pool.statistics().addresses_failing <= 10
        assert pool.addresses() == [address]


async def test_a_table_full_of_connections_takes_no_more(
    memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketpy.remoting.pool._MAX_PEERS", 1)
    async with running_server(memory) as one, running_server(memory) as two, ConnectionPool(memory).open() as pool:
        await pool.get(one.addresses[0], timeout=5)
        with pytest.raises(ConnectError, match="use another client for more"):
            await pool.get(two.addresses[0], timeout=5)
        pool.discard(one.addresses[0])
        assert (await pool.get(two.addresses[0], timeout=5)).is_open


async def test_callers_who_wait_when_the_pool_closes_are_told(memory: MemoryNetwork) -> None:
    memory.hang("host:1")
    pool = ConnectionPool(memory)

    async def get() -> None:
        with pytest.raises(ClientClosedError):
            await pool.get("host:1", timeout=5)

    async with trio.open_nursery() as nursery:
        async with pool.open():
            nursery.start_soon(get)
            await wait_all_tasks_blocked()
