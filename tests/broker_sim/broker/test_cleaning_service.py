"""Old files go by age, by the use of the disk, and on command; consumers and a restart find the store in order."""

from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
from tests.broker_sim.broker.kit import bodies, client_of
from tests.broker_sim.broker.kit import settings as broker_settings
from tests.broker_sim.store.helpers import message
from tests.virtual_time import loop_time

HOUR = 3600
MIDNIGHT = 1_772_323_200_000
"""Of a day in March 2026, ms since 1970, in Greenwich."""
LOG_FILE = 4096
SMALL = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 200,
    "flush_interval_commit_log": 60_000,
    "flush_interval_consume_queue": 60_000,
}
PER_FILE = 3


@pytest.fixture(autouse=True)
def greenwich(monkeypatch):
    """The local hour is that of Greenwich, and the wall clock follows that of the loop."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    with wall_clock(loop_time(MIDNIGHT)):
        yield
    monkeypatch.undo()
    time.tzset()


@asynccontextmanager
async def running(storage: MemoryStorage, **settings) -> AsyncIterator[tuple[Broker, Peer]]:
    """A broker with small files, and a client that is never idle for too long."""
    network = MemoryNetwork()
    config = broker_settings(**{**SMALL, **settings})
    async with open_broker(config, network=network, storage=storage) as broker:
        yield broker, Peer(network, broker)


class Peer:
    """Asks over a connection of its own each time: between two requests hours may pass."""

    def __init__(self, network: MemoryNetwork, broker: Broker) -> None:
        self._network = network
        self._broker = broker

    async def ask(self, code: int, ext: dict[str, str] | None = None) -> RemotingCommand:
        async with client_of(self._network, self._broker.address) as client:
            return await client.ask(code, ext)

    async def send(self, topic: str = "T", **fields) -> RemotingCommand:
        async with client_of(self._network, self._broker.address) as client:
            return await client.send(topic, **fields)

    async def pull(self, offset: int = 0) -> RemotingCommand:
        async with client_of(self._network, self._broker.address) as client:
            return await client.pull(offset=offset)

    async def fill(self, files: int, *, topic: str = "T", flush: bool = True) -> int:
        """Send until the log has so many files. Returns how many messages that took."""
        async with client_of(self._network, self._broker.address) as client:
            for number in range(files * PER_FILE):
                assert (await client.send(topic, body=b"%04d" % number + bytes(1000))).code == 0
        if flush:
            await self._broker.storing.flusher.flush_all()
        return files * PER_FILE


def log_files(storage: MemoryStorage) -> list[int]:
    """Numbers of the files that hold something; the one behind them was made ahead."""
    written = [name for name in storage.list("commitlog") if any(storage.read_bytes(f"commitlog/{name}")[:100])]
    return [int(name) // LOG_FILE for name in written]


@pytest.mark.slow
async def test_ST14_by_age_at_the_hour(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage, file_reserved_time=20, clean_resource_interval=60_000) as (broker, client):
        count = await client.fill(5)
        await trio.sleep(19 * HOUR)
        assert log_files(storage) == [0, 1, 2, 3, 4]  # none is old enough, though it has been four o'clock
        await trio.sleep(8.9 * HOUR)
        assert log_files(storage) == [0, 1, 2, 3, 4]  # old enough, but not yet four o'clock of the next day
        await trio.sleep(0.2 * HOUR)
        assert log_files(storage) == [4]  # the last one always stays
        assert broker.store.reads.log_start == 4 * LOG_FILE
        low = broker.store.reads.min_offset("T", 0)
        assert 0 < low < count == broker.store.reads.max_offset("T", 0)
        kept = await client.pull(offset=low)
        assert [int(body[:4]) for body in bodies(kept)] == list(range(low, count))


@pytest.mark.slow
async def test_ST14_several_hours_of_the_day(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage, file_reserved_time=0, delete_when="01;03") as (_, client):
        await client.fill(3)
        await trio.sleep(0.9 * HOUR)
        assert len(log_files(storage)) == 3
        await trio.sleep(1.2 * HOUR)
        assert log_files(storage) == [2]
        await client.fill(3)
        await trio.sleep(0.8 * HOUR)
        assert len(log_files(storage)) == 4
        await trio.sleep(0.2 * HOUR)
        assert len(log_files(storage)) == 1


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue"])
async def test_ST14_by_the_use_of_the_disk(autojump_clock: MockClock, folder: str) -> None:
    storage = MemoryStorage()
    async with running(storage, file_reserved_time=1) as (_, client):
        await client.fill(5)
        storage.used[folder] = 0.76
        await trio.sleep(0.9 * HOUR)
        assert len(log_files(storage)) == 5  # too young
        await trio.sleep(0.2 * HOUR)
        assert log_files(storage) == [4]  # it is one o'clock
        assert (await client.send()).code == 0


async def test_ST14_immediately_at_the_high_mark(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (_, client):
        await client.fill(5)
        storage.used["commitlog"] = 0.86
        await trio.sleep(20)
        assert log_files(storage) == [4]
        assert (await client.send()).code == 0


async def test_ST14_a_full_disk_takes_nothing_until_there_is_room(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(5)
        storage.used[""] = 0.91
        await trio.sleep(20)
        assert log_files(storage) == [4]
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await client.pull(offset=broker.store.reads.min_offset("T", 0)))
        storage.used.clear()
        await trio.sleep(10)
        assert (await client.send()).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("age", "left"), [(0.9, 3), (1.1, 1)])
async def test_ST14_on_command(autojump_clock: MockClock, age: float, left: int) -> None:
    storage = MemoryStorage()
    async with running(storage, file_reserved_time=1) as (_, client):
        await client.fill(3)
        await trio.sleep(age * HOUR)
        assert (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        await trio.sleep(1)
        assert len(log_files(storage)) == left
        await trio.sleep(HOUR)  # a command holds for some rounds, not for ever
        assert len(log_files(storage)) == left


async def test_a_round_deletes_a_few_files_with_pauses_in_between(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    deleted: list[tuple[float, str]] = []
    settings = {"delete_file_batch_max": 3, "delete_commit_log_files_interval": 500, "clean_resource_interval": 60_000}
    async with running(storage, **settings) as (_, client):
        await client.fill(9)
        storage.fault = lambda operation, path, size: (
            deleted.append((trio.current_time(), path)) if operation == "unlink" and "commitlog" in path else None
        )
        storage.used[""] = 0.88
        await trio.sleep(190)
        storage.fault = None
    begins = [moment for moment, _ in deleted]
    assert [int(path[-20:]) // LOG_FILE for _, path in deleted] == list(range(8))
    assert [round(after - before, 3) for before, after in pairwise(begins)] == [*(0.5, 0.5, 59.0, 0.5, 0.5, 59.0, 0.5)]


async def test_queues_are_cleaned_with_pauses_in_between(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    deleted: list[tuple[float, str]] = []
    async with running(storage, delete_consume_queue_files_interval=700) as (_, client):
        for _ in range(12):
            for queue in range(3):
                await client.send(body=bytes(1000), queue_id=queue)
        await client.fill(1)
        storage.fault = lambda operation, path, size: (
            deleted.append((trio.current_time(), path)) if operation == "unlink" and "consumequeue/" in path else None
        )
        storage.used[""] = 0.88
        await trio.sleep(30)
        storage.fault = None
    assert len({path.split("/")[2] for _, path in deleted}) == len(deleted) == 3
    assert [round(after - before, 3) for (before, _), (after, _) in pairwise(deleted)] == [0.7, 0.7]


async def test_PL3_what_was_deleted_is_no_place_to_read_from(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(5)
        storage.used[""] = 0.86
        await trio.sleep(20)
        low = broker.store.reads.min_offset("T", 0)
        answer = await client.pull(offset=0)
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert answer.ext_fields["nextBeginOffset"] == answer.ext_fields["minOffset"] == str(low)
        assert (await client.pull(offset=low)).code == 0


async def test_queue_files_that_lead_nowhere_go_and_the_last_one_stays(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(3, topic="Gone")
        await client.fill(10)
        assert len(storage.list("consumequeue/T/0")) == 3
        storage.used[""] = 0.86
        await trio.sleep(60)
        low, high = broker.store.reads.min_offset("T", 0), broker.store.reads.max_offset("T", 0)
        assert [int(name) for name in storage.list("consumequeue/T/0")] == [low * 20 // 200 * 200]
        assert broker.store.reads.min_offset("Gone", 0) == broker.store.reads.max_offset("Gone", 0) == 9
        assert storage.list("consumequeue/Gone/0") == ["0" * 20]
        assert (await client.send("Gone")).ext_fields["queueOffset"] == "9"  # offsets go on
        assert low < high == 30


async def test_index_files_that_lead_nowhere_go(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage, max_hash_slot_num=10, max_index_num=10) as (broker, client):
        for number in range(30):
            properties = f"KEYS\x01key{number}\x02"
            assert (await client.send(body=bytes(1000), properties=properties)).code == 0
        await broker.storing.flusher.flush_all()
        assert len(storage.list("index")) == 7
        storage.used[""] = 0.86
        await trio.sleep(60)
        assert len(storage.list("index")) == 1
        low = broker.store.reads.min_offset("T", 0)
        assert [len(broker.store.index.find("T", f"key{n}", 8, 0, 2**62).positions) for n in (0, 29)] == [0, 1]
        assert low > 20


async def test_a_cleaned_store_opens_and_goes_on(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(6)
        storage.used[""] = 0.86
        await trio.sleep(20)
        low = broker.store.reads.min_offset("T", 0)
        killed = storage.clone()
    for left in (storage, killed):
        await _reads_and_goes_on(left, low)


async def _reads_and_goes_on(storage: MemoryStorage, low: int) -> None:
    async with running(storage) as (broker, client):
        assert broker.store.reads.log_start > 0
        assert (broker.store.reads.min_offset("T", 0), broker.store.reads.max_offset("T", 0)) == (low, 18)
        assert len(bodies(await client.pull(offset=low))) == 18 - low
        assert (await client.send()).ext_fields["queueOffset"] == "18"
        assert len(bodies(await client.pull(offset=low))) == 19 - low


async def test_what_a_crash_amid_the_cleaning_left_is_cleaned_at_the_next_start(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(10)
        for _ in range(9):
            file = broker.store.retention.take_log_file()
            assert file is not None
            broker.store.retention.remove(file)
        killed = storage.clone()
    async with running(killed) as (broker, client):
        assert len(killed.list("consumequeue/T/0")) == 3
        await trio.sleep(20)
        assert len(killed.list("consumequeue/T/0")) == 1
        assert bodies(await client.pull(offset=broker.store.reads.min_offset("T", 0)))


async def test_what_the_checkpoint_does_not_vouch_for_stays(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage, clean_resource_interval=1000) as (_, client):
        storage.used[""] = 0.86
        await client.fill(5, flush=False)
        await trio.sleep(50)
        assert len(log_files(storage)) == 5
        await trio.sleep(20)
        assert len(log_files(storage)) == 1


async def test_a_file_that_cannot_be_deleted_is_tried_again_later(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    tries = 0

    def refuse(operation: str, path: str, size: int) -> None:
        nonlocal tries
        if operation == "unlink" and path.startswith("commitlog"):
            tries += 1
            raise OSError(errno.EACCES, "Permission denied")

    async with running(storage, redelete_hanged_file_interval=90_000) as (broker, client):
        await client.fill(4)
        storage.used[""] = 0.86
        storage.fault = refuse
        await trio.sleep(80)
        assert tries == 1
        assert len(log_files(storage)) == 4
        assert broker.store.reads.log_start == 0
        assert len(bodies(await client.pull())) > 0  # it is read again
        storage.fault = None
        await trio.sleep(130)
        assert len(log_files(storage)) == 1


async def test_a_disk_that_neither_deletes_a_file_nor_says_whether_it_is_there_does_not_end_the_broker(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryStorage()

    def unreadable(path: str) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error", path)

    async with running(storage, redelete_hanged_file_interval=90_000) as (broker, client):
        await client.fill(4)
        storage.used[""] = 0.86
        with storage.failing("unlink", code=errno.EIO, under="commitlog"), monkeypatch.context() as patch:
            patch.setattr(storage, "exists", unreadable)
            await trio.sleep(80)
        assert broker.store.reads.log_start == 0
        assert len(bodies(await client.pull())) > 0
        await trio.sleep(130)
        assert len(log_files(storage)) == 1


async def test_a_queue_file_that_cannot_be_deleted_leaves_no_gap(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (_, client):
        await client.fill(10)
        storage.used[""] = 0.86
        with storage.failing("unlink", code=errno.EACCES, under="consumequeue"):
            await trio.sleep(40)
        assert len(log_files(storage)) == 1
        assert len(storage.list("consumequeue/T/0")) == 3
        answer = await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert answer.code == 0
        assert len(storage.list("consumequeue/T/0")) == 1


async def test_queues_that_cannot_be_read_are_corrected_later(autojump_clock: MockClock, monkeypatch) -> None:
    def broken(*_: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(10)
        storage.used[""] = 0.86
        with monkeypatch.context() as patch:
            patch.setattr(ConsumeQueue, "units", broken)
            await trio.sleep(40)
        assert len(log_files(storage)) == 1
        assert broker.store.reads.min_offset("T", 0) == 0
        assert len(storage.list("consumequeue/T/0")) == 3
        answer = await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert answer.code == 0
        assert broker.store.reads.min_offset("T", 0) > 20
        assert len(storage.list("consumequeue/T/0")) == 1


async def test_a_disk_that_does_not_answer_is_asked_again(autojump_clock: MockClock, monkeypatch) -> None:
    storage = MemoryStorage()
    asked = 0

    def broken(path: str = "") -> float:
        nonlocal asked
        asked += 1
        raise OSError(errno.EIO, "Input/output error")

    async with running(storage) as (_, client):
        monkeypatch.setattr(storage, "usage", broken)
        await client.fill(2)
        await trio.sleep(60)
        assert asked >= 5
        assert (await client.send()).code == 0


def queues(broker: Broker) -> set[str]:
    return {name for name in broker.store.reads.topics() if not broker.topics.is_system(name)}


async def test_ST20_a_deleted_topic_loses_its_queues(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        for topic in ("Kept", "Deleted"):
            for queue in range(2):
                await client.send(topic, queue_id=queue)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Deleted"})
        assert queues(broker) == {"Kept"}
        assert storage.list("consumequeue") == ["Kept"]


async def test_ST20_topics_that_nobody_knows_lose_their_queues_on_command(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        for topic in ("Kept", "Unused", "%RETRY%g", "SELF_TEST_TOPIC", "%LMQ%light"):
            broker.topics.create_retry(topic, 1)
            broker.store.put(message(topic=topic))
        broker.storing.commit()
        for topic in ("Unused", "Kept"):
            broker.offsets.commit("g", topic, 0, 1)
        for topic in ("Unused", "SELF_TEST_TOPIC", "%LMQ%light"):
            broker.topics.delete(topic)
        await client.send("Kept")
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        # A retry topic stays while it has settings; those of the system's own stay in any case, and those that never
        # have settings.
        assert broker.store.reads.topics() == {"Kept", "%RETRY%g", "%LMQ%light", "SELF_TEST_TOPIC"}
        assert storage.list("consumequeue") == ["%LMQ%light", "%RETRY%g", "Kept", "SELF_TEST_TOPIC"]
        assert [broker.offsets.query("g", topic, 0) for topic in ("Unused", "Kept")] == [-1, 1]
        assert b"Unused" not in storage.read_bytes("config/consumerOffset.json")
        broker.topics.delete("%RETRY%g")
        await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)
        assert broker.store.reads.topics() == {"Kept", "%LMQ%light", "SELF_TEST_TOPIC"}
    async with running(storage) as (broker, client):
        assert "%LMQ%light" in broker.store.reads.topics()
        assert "%LMQ%light" not in broker.topics


async def test_ST20_a_disk_that_refuses_is_told(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.send("Unused")
        broker.topics.delete("Unused")
        with storage.failing("unlink", code=errno.EIO, under="consumequeue"):
            assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == ResponseCode.SYSTEM_ERROR


async def test_ST20_a_deleted_topic_does_not_come_back_after_a_crash(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        for _ in range(5):
            await client.send("Deleted")
            await client.send("Kept")
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Deleted"})
        await client.send("Kept")
        killed = storage.clone()
    async with running(killed) as (broker, client):
        assert queues(broker) == {"Kept"}
        assert "Deleted" not in broker.topics
        assert (await client.send("Deleted")).ext_fields["queueOffset"] == "0"


async def test_ST20_topics_without_messages_and_settings_lose_their_queues_at_the_start(
    autojump_clock: MockClock,
) -> None:
    storage = MemoryStorage()
    async with running(storage) as (broker, client):
        await client.fill(3, topic="Unused")
        await client.fill(6, topic="Kept")
        broker.topics.create_retry("%RETRY%g", 1)
        storage.used[""] = 0.86
        await trio.sleep(20)
        await client.send("Young")
        assert broker.store.reads.min_offset("Unused", 0) == broker.store.reads.max_offset("Unused", 0) == 9
        broker.offsets.commit("g", "Unused", 0, 9)
        broker.topics.delete("Unused")
        broker.topics.delete("Young")
    async with running(storage) as (broker, client):
        # One with messages was made before a crash, which came before its settings were written.
        assert queues(broker) == {"Kept", "Young"}
        assert "Young" in broker.topics
        assert "Unused" not in broker.topics
        assert "Unused" not in storage.list("consumequeue")
        # Not forgotten: without an offset the group might begin behind the messages of a topic made again.
        assert broker.offsets.query("g", "Unused", 0) == 0
