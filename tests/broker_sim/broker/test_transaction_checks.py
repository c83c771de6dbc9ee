"""Checks of transactions that do not end: when, which producer, how often, and what remains after a restart."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.compression import compress
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.transactions import checking
from rocketpy_broker_sim.broker.transactions.window import Mark
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.serving.slices import in_slices
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client, client_of, settings
from tests.broker_sim.broker.transacting import (
    COMMIT,
    DISCARDED,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    end,
    end_oneway,
    half_properties,
    join,
    questions,
    send_half,
    stored,
)
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000
GROUP = "CID_RMQ_SYS_TRANS"


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


async def stay(client: Client, seconds: float, *groups: str) -> None:
    """Let time pass, with heartbeats."""
    end_at = trio.current_time() + seconds
    while trio.current_time() < end_at:
        await join(client, *(groups or ("p",)))
        await trio.sleep(min(30.0, end_at - trio.current_time()))


# --- when, and how often -----------------------------------------------------------------------------------


async def test_TX2_TX3_a_producer_is_asked_and_its_answer_ends_the_transaction(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await join(client, "p")
        body, flags = compress(b"body" * 100), 1
        half = await send_half(client, "U1", body, queue_id=3, TAGS="a", sys_flag=flags | 4)
        end_oneway(client, half, UNKNOWN)
        await trio.sleep(29)
        assert questions(client) == []
        await trio.sleep(2)
        ((asked, message),) = questions(client)
        assert (asked.offset, asked.transaction_id) == (1, "U1")
        assert asked.position > half.position
        assert (message.topic, message.queue_id, message.body) == ("T", 3, b"body" * 100)
        assert message.tags == "a"
        assert message.wire_properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert message.offset_message_id == client.received[-1].ext_fields["offsetMsgId"]
        assert client.received[-1].ext_fields["topic"] == HALF
        assert client.received[-1].ext_fields["bname"] == "broker-a"
        assert client.received[-1].is_oneway
        assert (await end(client, asked, from_transaction_check=True)).code == 0
        (committed,) = stored(broker, "T", 3)
        assert committed.body == b"body" * 100
        assert committed.prepared_transaction_offset == asked.position
        await stay(client, 100)
        assert len(questions(client)) == 1


async def test_TX3_first_after_six_seconds_then_every_thirty_then_set_aside(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await join(client, "p")
        await trio.sleep(26)
        await send_half(client)
        await trio.sleep(5)  # the check at 30 s finds it too young
        assert questions(client) == []
        await stay(client, 30)
        assert len(questions(client)) == 1
        await stay(client, 14 * 30 - 2)
        assert len(questions(client)) == 15 - 1
        await stay(client, 30)
        assert len(questions(client)) == 15
        assert [half.offset for half, _ in questions(client)] == list(range(1, 16))
        assert stored(broker, DISCARDED) == []
        await stay(client, 30)
        (aside,) = stored(broker, DISCARDED)
        assert aside.wire_properties["TRANSACTION_CHECK_TIMES"] == "15"
        assert (aside.wire_properties["REAL_TOPIC"], aside.body) == ("T", b"x")
        await stay(client, 120)
        assert (len(questions(client)), len(stored(broker, DISCARDED))) == (15, 1)
        info = broker.runtime_info()
        assert (info["openTransactions"], info["transactionsDiscarded"], info["transactionChecks"]) == ("0", "1", "15")


async def test_TX3_an_end_after_it_was_set_aside(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_max=2) as (broker, client):
        half = await send_half(client)
        await stay(client, 95)
        assert len(stored(broker, DISCARDED)) == 1
        for place in [half, *(asked for asked, _ in questions(client))]:
            answer = await end(client, place, from_transaction_check=True)
            assert answer.code == ResponseCode.SYSTEM_ERROR
        assert stored(broker, "T") == []


async def test_TX3_the_settings_are_obeyed_while_it_runs(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_interval=5000, transaction_time_out=1000) as (broker, client):
        await join(client, "p")
        await send_half(client)
        await trio.sleep(5.5)
        assert len(questions(client)) == 1
        update = b"transactionCheckInterval=1000\ntransactionCheckMax=3\n"
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=update)).code == 0
        await trio.sleep(8)
        assert len(questions(client)) == 3
        assert len(stored(broker, DISCARDED)) == 1


async def test_what_is_older_than_any_file_is_set_aside(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await send_half(client)
    await trio.sleep(73 * 3600)
    async with broker_and_client(storage=storage) as (broker, client):
        await join(client, "p")
        await trio.sleep(31)
        assert questions(client) == []
        assert len(stored(broker, DISCARDED)) == 1


async def test_the_clock_of_a_producer_does_not_matter(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_interval=2100) as (_, client):
        await join(client, "p")
        for number, born in enumerate((1, EPOCH + 3_600_000)):
            await client.send("T", b"x", half_properties(f"U{number}"), born_timestamp=born)
        await trio.sleep(5)
        assert questions(client) == []
        await trio.sleep(2)
        assert [half.transaction_id for half, _ in questions(client)] == ["U0", "U1"]


# --- the time that a message asks for ----------------------------------------------------------------------


async def test_TX4_a_message_may_ask_for_a_later_first_check(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client, "U1", CHECK_IMMUNITY_TIME_IN_SECONDS="100")
        await send_half(client, "U2")
        await stay(client, 31)
        assert [asked.transaction_id for asked, _ in questions(client)] == ["U2"]
        copies = [message for message in stored(broker, HALF) if message.wire_properties["UNIQ_KEY"] == "U1"]
        assert [message.wire_properties.get("TRAN_PREPARED_QUEUE_OFFSET") for message in copies] == [None, "0"]
        await stay(client, 62)
        assert {asked.transaction_id for asked, _ in questions(client)} == {"U2"}
        copies = [message for message in stored(broker, HALF) if message.wire_properties["UNIQ_KEY"] == "U1"]
        offsets = [message.wire_properties.get("TRAN_PREPARED_QUEUE_OFFSET") for message in copies]
        assert offsets == [None, "0", "0", "0"]
        assert (await end(client, half)).code == 0  # in its time, by the place that its producer knows
        assert len(stored(broker, "T")) == 1
        await stay(client, 90)
        assert "U1" not in {asked.transaction_id for asked, _ in questions(client)}


async def test_TX4_after_that_time_it_is_asked_about(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await send_half(client, CHECK_IMMUNITY_TIME_IN_SECONDS="45")
        await stay(client, 59)
        assert questions(client) == []
        await stay(client, 62)
        assert len(questions(client)) == 3  # after 60, 90 and 120 s


# --- whom --------------------------------------------------------------------------------------------------


async def test_TX2_another_producer_of_the_group_is_asked(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, first):
        async with client_of(network, broker.address) as second, client_of(network, broker.address) as stranger:
            await join(first, "p")
            await join(second, "p", "q")
            await join(stranger, "q")
            await send_half(first)
            first.connection.close()
            await trio.sleep(31)
            ((asked, _),) = questions(second)
            assert questions(stranger) == []
            assert (await end(second, asked, from_transaction_check=True)).code == 0
        assert len(stored(broker, "T")) == 1


async def test_TX2_producers_take_turns(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, first), client_of(network, broker.address) as second:
        await join(first, "p")
        await join(second, "p")
        for number in range(10):
            await send_half(first, f"U{number}")
        await trio.sleep(31)
        assert (len(questions(first)), len(questions(second))) == (5, 5)


async def test_a_producer_that_does_not_read_is_passed_over(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with broker_and_client(network) as (broker, first), client_of(network, broker.address) as second:
        await join(first, "p")
        await join(second, "p")
        (stuck, *_) = [link for link in network.links() if link.client == first.connection.local_address]
        await send_half(first, "U1", b"x" * 1_000_000)
        stuck.pause("client")
        await stay(second, 400)
        assert len(questions(second)) >= 8
        info = broker.runtime_info()
        assert int(info["transactionChecks"]) >= len(questions(second))


async def test_nobody_to_ask_counts_as_a_check(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_max=3) as (broker, client):
        await send_half(client)
        await trio.sleep(125)
        assert len(stored(broker, DISCARDED)) == 1
        assert broker.runtime_info()["transactionChecksWithoutProducer"] == "3"


# --- late and double answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1, 2, 3])
async def test_any_copy_of_a_half_message_ends_it_once(autojump_clock: MockClock, which: int) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        await stay(client, 92)
        places = [half, *(asked for asked, _ in questions(client))]
        assert len(places) == 4
        assert (await end(client, places[which], from_transaction_check=which > 0)).code == 0
        for place in places:
            await end(client, place, from_transaction_check=True)
        assert len(stored(broker, "T")) == 1
        await stay(client, 62)
        assert len(questions(client)) == 3


async def test_threat_M11_the_copy_of_another_group_is_not_ended(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await send_half(client, "U1")
        stolen = await send_half(client, "U1", group="evil")
        await stay(client, 31, "p", "evil")
        assert len(questions(client)) == 2
        assert (await end(client, stolen, producer_group="evil", from_transaction_check=True)).code == 0
        (message,) = stored(broker, "T")
        assert message.wire_properties["PGROUP"] == "evil"
        await stay(client, 30, "p", "evil")
        assert questions(client)[-1][1].wire_properties["PGROUP"] == "p"


# --- after a restart ---------------------------------------------------------------------------------------


async def test_TX2_after_a_kill_open_transactions_are_asked_about_and_ended_ones_not(autojump_clock: MockClock) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()
    async with open_broker(settings(), network=network, storage=storage) as broker:
        async with client_of(network, broker.address) as client:
            halves = [await send_half(client, f"U{number}") for number in range(4)]
            await end(client, halves[0])
            await end(client, halves[1], ROLLBACK)
            await join(client, "p")
            await trio.sleep(31)
            await trio.sleep(6)
            late = await send_half(client, "U4")
            broker.kill()
    async with broker_and_client(network, storage) as (broker, client):
        await join(client, "p")
        assert broker.transactions.ledger.window.base in (0, 4, 6)
        await trio.sleep(31)
        assert {asked.transaction_id for asked, _ in questions(client)} == {"U2", "U3", "U4"}
        assert (await end(client, late)).code == 0
        assert (await end(client, halves[2])).code == 0
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["U0", "U4", "U2"]


async def test_after_a_kill_only_the_last_copy_is_asked_about(autojump_clock: MockClock) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()
    async with open_broker(settings(), network=network, storage=storage) as broker:
        async with client_of(network, broker.address) as client:
            half = await send_half(client)
            await stay(client, 62)
            assert broker.offsets.query(GROUP, HALF, 0) == 2
            broker.kill()
    storage.unlink("config/consumerOffset.json")  # how far it was is not on the disk
    async with broker_and_client(network, storage) as (broker, client):
        await wait_all_tasks_blocked()
        window = broker.transactions.ledger.window
        assert [window.state(offset) for offset in range(3)] == [Mark.MOVED, Mark.MOVED, Mark.OPEN]
        await join(client, "p")
        await trio.sleep(31)
        assert len(questions(client)) == 1
        assert questions(client)[0][1].wire_properties["TRANSACTION_CHECK_TIMES"] == "3"
        assert (await end(client, half)).code == 0  # the copy is known again
        assert len(stored(broker, "T")) == 1


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_TX1_what_ends_before_its_copies_are_found_after_a_kill_is_committed_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    storage, network, found = MemoryStorage(), MemoryNetwork(), trio.Event()

    here = trio.lowlevel.current_trio_token()

    async def later(steps: Generator[None, None, object]) -> object:
        if trio.lowlevel.current_trio_token() is here:  # not in the loop of a cluster of other tests, in a thread
            await found.wait()
        return await in_slices(steps)

    async with open_broker(settings(), network=network, storage=storage) as broker:
        async with client_of(network, broker.address) as client:
            halves = [await send_half(client)]
            await stay(client, 62)
            halves += [half for half, _ in questions(client)]
            broker.kill()
    storage.unlink("config/consumerOffset.json")  # how far it was is not on the disk
    monkeypatch.setattr(checking, "in_slices", later)
    async with broker_and_client(network, storage) as (broker, client):
        assert (await end(client, halves[which])).code == 0
        found.set()
        await stay(client, 62)
        assert questions(client) == []
        assert len(stored(broker, "T")) == 1
        left = storage.clone()
    async with broker_and_client(network, left) as (_, client):
        await stay(client, 62)
        assert questions(client) == []


async def test_TX1_what_ends_before_its_copy_is_found_is_committed_once_after_a_second_kill(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()

    here = trio.lowlevel.current_trio_token()

    async def never(steps: Generator[None, None, object]) -> object:
        if trio.lowlevel.current_trio_token() is not here:  # in the loop of a cluster of other tests, in a thread
            return await in_slices(steps)
        return await trio.sleep_forever()

    async with open_broker(settings(), network=network, storage=storage) as broker:
        async with client_of(network, broker.address) as client:
            half = await send_half(client)
            await stay(client, 62)
            broker.kill()
    storage.unlink("config/consumerOffset.json")  # how far it was is not on the disk
    with monkeypatch.context() as patch:
        patch.setattr(checking, "in_slices", never)
        async with open_broker(settings(), network=network, storage=storage) as broker:
            async with client_of(network, broker.address) as client:
                assert (await end(client, half)).code == 0
                await stay(client, 10)
                broker.kill()
    if storage.exists("config/consumerOffset.json"):
        storage.unlink("config/consumerOffset.json")
    async with broker_and_client(network, storage) as (broker, client):
        await stay(client, 62)
        assert questions(client) == []
        assert len(stored(broker, "T")) == 1


async def test_what_has_ended_is_known_after_a_stop_in_order(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        half = await send_half(client)
        end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert stored(broker, OP) == []
    async with broker_and_client(storage=storage) as (broker, client):
        assert [op.body for op in stored(broker, OP)] == [b"0,"]
        await stay(client, 35)
        assert questions(client) == []
        assert (await end(client, half)).code == ResponseCode.SYSTEM_ERROR


async def test_how_far_it_is_is_noted_as_apache_notes_it(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(3)]
        await join(client, "p")
        for half in halves[:2]:
            await end(client, half)
        await trio.sleep(31)
        assert broker.offsets.query(GROUP, HALF, 0) == 3
        assert broker.offsets.query(GROUP, OP, 0) == 2
        assert len(stored(broker, HALF)) == 4


async def test_it_is_noted_when_the_disk_has_it_and_not_before(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    sync = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with broker_and_client(storage=storage, **sync) as (broker, client):
        await join(client, "p")
        await send_half(client)
        with storage.failing("fdatasync", under="commitlog"):
            await trio.sleep(31)
            assert questions(client) == []
            assert broker.offsets.query(GROUP, HALF, 0) == -1


# --- the disk, and many --------------------------------------------------------------------------------------


async def test_a_check_that_the_disk_refuses_is_done_later(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await join(client, "p")
        half = await send_half(client)
        await trio.sleep(20)
        with storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
            await trio.sleep(15)
            assert questions(client) == []
        assert broker.transactions.ledger.window.state(half.offset) is Mark.OPEN
        await stay(client, 30)
        ((asked, message),) = questions(client)
        assert message.wire_properties["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(client, asked, from_transaction_check=True)).code == 0


async def test_a_half_message_that_cannot_be_stored_again_is_set_aside(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await join(client, "p")
        first = await client.send("T", b"x", half_properties("U1", pad="x" * 32_500))
        room = 32_767 - len(broker.store.reads.get(HALF, 0, 0, 1).records) + 91 + len(HALF) + 1
        assert first.code == 0
        full = await client.send("T", b"x", half_properties("U2", pad="x" * (32_500 + room)))
        assert full.code == 0
        await send_half(client, "U3")
        await trio.sleep(31)
        assert [asked.transaction_id for asked, _ in questions(client)] == ["U1", "U3"]
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, DISCARDED)] == ["U2"]


@pytest.mark.parametrize("most", [1, 16, 1000])
async def test_many_open_transactions_are_asked_about_in_stretches(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(checking, "A_STRETCH", most)
    async with broker_and_client() as (broker, client):
        await join(client, "p")
        for number in range(100):
            half = await send_half(client, f"U{number}")
            if number % 3 == 2:
                end_oneway(client, half, ROLLBACK)
        await trio.sleep(31)
        open_ones = [f"U{number}" for number in range(100) if number % 3 != 2]
        assert [asked.transaction_id for asked, _ in questions(client)] == open_ones
        for asked, _ in questions(client):
            end_oneway(client, asked, COMMIT, from_transaction_check=True)
        await wait_all_tasks_blocked()
        assert broker.store.reads.max_offset("T", 0) == len(open_ones)
        await stay(client, 40)
        assert len(client.received) == len(open_ones)
        assert len(broker.transactions.ledger.window) == 0
