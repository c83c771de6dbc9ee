"""Every system call of the store fails, once and for ten seconds: nothing acknowledged is lost, and the rest is told.

A broker works over memory streams and a real directory, whose calls fail as `system_calls` has it. While the fault is
there every request is answered, by a code that a client understands. When it has gone the broker serves again, without
a restart; where a flush of written data failed it says that it does not, and why.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from rocketpy.errors import StoreError
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.queue import table
from tests.broker_sim.broker.kit import Client, bodies, broker_and_client, settings
from tests.hostile.system_calls import AFTER_A_FAILED_WRITE, AT_START, CALLS, SHORT, SystemCalls

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are named by /proc here")

REFUSALS = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLUSH_DISK_TIMEOUT,
}
KEPT = {ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT}
"""Codes of sends whose messages are there; the second one is of those that the broker took, and says so."""
MUST_END = {("sync_data", code) for code in CALLS["sync_data"] if code != errno.EINTR}
MUST_END |= {("syncfs", code) for code in CALLS["syncfs"]}
"""What the system says of a flush of written data that failed: a broker that went on would lose what it promised."""
MAY_END = {("fsync", errno.EIO)}
"""The same, where it concerns a folder of the log or of the queues; one of settings is tried again."""
LOG_FILE = 8192
SMALL = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 400,
    "flush_interval_commit_log": 200,
    "flush_consume_queue_thorough_interval": 3000,
    "sync_flush_timeout": 2000,
    "max_index_num": 60,
    "clean_resource_interval": 3000,
}
DELAYED = "Delayed"
POOL = "POOL"
"""In the place of how messages are flushed: they go to buffers first, and the disk gets them a moment later."""
POOLED = ("pwrite", "mmap")
"""What moves the messages of a buffer, and makes a buffer."""
QUICK = {("open", errno.EMFILE), ("pwrite", errno.ENOSPC), ("pread", errno.EIO), ("sync_data", errno.EIO)}


def cells() -> Iterator[Any]:
    """Each call with each of its codes, once and for ten seconds.

    Answers wait for the disk where the call has to do with that, and in every other cell of the others.
    """
    for call, codes in CALLS.items():
        for number, code in enumerate(codes):
            for seconds in (0, 10):
                both = call in ("pwrite", "sync_data", "fsync", "close")
                modes = ("ASYNC_FLUSH", "SYNC_FLUSH") if both else (("ASYNC_FLUSH", "SYNC_FLUSH")[number % 2],)
                modes += (POOL,) if call in POOLED else ()
                for mode in modes:
                    name = "short" if code == SHORT else errno.errorcode[code]
                    marks = () if (call, code) in QUICK else (pytest.mark.matrix,)
                    yield pytest.param(call, code, seconds, mode, id=f"{call}-{name}-{seconds}s-{mode}", marks=marks)


class Work:
    """What one client does all the time, and what it was told.

    Attributes:
        kept: Bodies of messages that were acknowledged, by queue.
        maybe: Bodies of messages of which nobody knows.
        delayed: Bodies of delayed messages that were acknowledged.
        offset: Where the group stands in the first queue, as was acknowledged last.
        topics: Topics whose making was acknowledged.
        refused: Codes of other answers.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.kept: dict[int, list[bytes]] = {0: [], 1: []}
        self.maybe: set[bytes] = set()
        self.delayed: list[bytes] = []
        self.offset = -1
        self.topics: list[str] = []
        self.refused: list[int] = []
        self._number = 0

    async def round(self) -> None:
        """One of each: sends, a pull, a query, a new topic or a deletion, a commit of an offset, a delayed message."""
        self._number += 1
        for queue in self.kept:
            await self._send(queue, b"%d-%d" % (queue, self._number) + b"." * 300)
        await self._ask(RequestCode.PULL_MESSAGE, await self.client.pull(queue=self._number % 2, offset=0))
        await self._ask(RequestCode.QUERY_MESSAGE, await query(self.client, f"key{self._number - 1}"))
        if self._number % 2 == 0:
            await self._make_topic(f"Made{self._number}")
        else:
            await self._delete_topic()
        await self._commit(len(self.kept[0]))
        if self._number % 3 == 0:
            await self._delay(b"delayed-%d" % self._number)

    async def _commit(self, offset: int) -> None:
        fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
        answer = await self.client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        if answer.code == ResponseCode.SUCCESS:
            self.offset = offset
        await self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, answer)

    async def _delay(self, body: bytes) -> None:
        answer = await self.client.send(DELAYED, body, "DELAY\x011\x02")
        if answer.code in KEPT:
            self.delayed.append(body)
        else:
            self.maybe.add(body)
            self.refused.append(answer.code)

    async def _send(self, queue: int, body: bytes) -> None:
        properties = f"KEYS\x01key{self._number}\x02UNIQ_KEY\x01{queue:04d}{self._number:028d}\x02"
        answer = await self.client.send(body=body, properties=properties, queue_id=queue)
        if answer.code in KEPT:
            self.kept[queue].append(body)
        else:
            self.maybe.add(body)
            self.refused.append(answer.code)

    async def _make_topic(self, name: str) -> None:
        fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
        fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        answer = await self.client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        if answer.code == ResponseCode.SUCCESS:
            self.topics.append(name)
            await self.client.send(topic=name)
        await self._ask(RequestCode.UPDATE_AND_CREATE_TOPIC, answer)

    async def _delete_topic(self) -> None:
        if not self.topics:
            return
        name = self.topics.pop(0)
        answer = await self.client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
        await self._ask(RequestCode.DELETE_TOPIC_IN_BROKER, answer)

    async def _ask(self, code: int, answer: Any) -> None:
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.QUERY_NOT_FOUND):
            assert answer.remark, f"{code} was refused without a word"
            self.refused.append(answer.code)


async def query(client: Client, key: str) -> Any:
    fields = {"topic": "T", "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    return await client.ask(RequestCode.QUERY_MESSAGE, fields)


async def read_all(client: Client, queue: int, topic: str = "T") -> list[bytes]:
    """Every message of a queue."""
    found: list[bytes] = []
    while True:
        answer = await client.pull(topic, queue, offset=len(found))
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += bodies(answer)


def check(found: list[bytes], kept: list[bytes], maybe: set[bytes]) -> None:
    """What was acknowledged is there, once, in order; beside it only what nobody knew of."""
    assert [body for body in found if body not in maybe] == kept
    assert len(found) == len(set(found))


async def work_for(work: Work, seconds: float) -> None:
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await work.round()
        await trio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("call", "code", "seconds", "mode"), list(cells()))
async def test_a_fault_of_the_disk(
    tmp_path: Path,
    autojump_clock: MockClock,
    monkeypatch: Any,
    caplog: Any,
    call: str,
    code: int,
    seconds: int,
    mode: str,
) -> None:
    caplog.set_level(logging.WARNING)
    chosen = {**SMALL, "flush_disk_type": mode, "warm_maped_file_enable": call in ("mmap", "mlock")}
    if mode == POOL:
        chosen |= {"flush_disk_type": "ASYNC_FLUSH", "transient_store_pool_enable": True}
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        if call == "syncfs":
            patch.setattr(table, "MANY", 1)
        async with broker_and_client(storage=RealStorage(tmp_path), **chosen) as (broker, client):  # type: ignore[arg-type]
            work = Work(client)
            await work_for(work, 3)
            assert work.refused == []
            # The one flush that fails is one of messages: it might be a table's or the next file's, which can wait.
            file = broker.store.written_position // LOG_FILE * LOG_FILE
            under = f"commitlog/{file:020d}" if call == "sync_data" and not seconds else ""
            calls.fail(call, code, times=None if seconds else 1, under=under)
            if call in AFTER_A_FAILED_WRITE:
                calls.halve_a_write(errno.ENOSPC, under="commitlog")
            await work_for(work, seconds or 3)
            calls.heal()
            assert calls.struck, "the fault was never there"
            assert set(work.refused) <= REFUSALS
            if await ends_writing(broker, call, code, lasting=bool(seconds)):
                await still_reads(work, caplog.text)
            else:
                await serves_again(broker, work)
    async with broker_and_client(storage=RealStorage(tmp_path), **chosen) as (broker, client):  # type: ignore[arg-type]
        for queue, kept in work.kept.items():
            check(await read_all(client, queue), kept, work.maybe)
        assert set(work.topics) <= set(broker.topics.all())
        assert broker.offsets.queues("g", "T") == {0: work.offset}
        await trio.sleep(3)
        assert {*work.delayed} <= {*await read_all(client, 0, DELAYED)} <= {*work.delayed, *work.maybe}
        assert (await client.send(body=b"and on")).code == ResponseCode.SUCCESS


async def ends_writing(broker: Broker, call: str, code: int, *, lasting: bool) -> bool:
    """Whether writing has ended: it must have after a flush of written data that failed, and after nothing else."""
    await trio.lowlevel.checkpoint()
    over = broker.store._log.failure is not None
    if (call, code) in MUST_END or (lasting and (call, code) in MAY_END):
        assert over, "a flush of what was written failed, and the broker goes on as if nothing were"
    elif (call, code) not in MAY_END:
        assert not over, broker.store._log.failure
    return over


async def still_reads(work: Work, told: str) -> None:
    """Writing has ended: the broker says so, and why, and gives what it has."""
    assert "until the broker is restarted" in told
    answer = await work.client.send(body=b"more")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "disk" in answer.remark
    for queue, kept in work.kept.items():
        found = await read_all(work.client, queue)
        assert [body for body in found if body not in work.maybe] == kept[: len(found)]


async def serves_again(broker: Broker, work: Work) -> None:
    """The fault has gone: everything works as before, soon, and without a restart."""
    await trio.sleep(12)
    before = len(work.refused)
    await work_for(work, 3)
    assert work.refused[before:] == []
    await trio.sleep(12)
    for queue, kept in work.kept.items():
        check(await read_all(work.client, queue), kept, work.maybe)
    check(await read_all(work.client, 0, DELAYED), work.delayed, work.maybe)
    assert broker.store.flags.bits == 0
    assert broker.store.flushed_position == broker.store.written_position
    assert not broker.store.index.failed
    assert not broker.store.index.is_behind
    for number in (1, work._number):
        assert (await query(work.client, f"key{number}")).code == ResponseCode.SUCCESS, number


@pytest.mark.parametrize("is_taken_back", [True, False])
async def test_a_send_that_cannot_be_taken_back_is_not_said_to_be_refused(
    tmp_path: Path, autojump_clock: MockClock, is_taken_back: bool
) -> None:
    """Of what was written by halves and may still stand there, nobody can say that it is not stored.

    Two messages leave with one write; the first half of that holds one of them whole, which a crash brings back.
    """
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        async with broker_and_client(storage=RealStorage(tmp_path)) as (broker, client):  # type: ignore[arg-type]
            assert (await client.send(body=b"before")).code == ResponseCode.SUCCESS
            calls.halve_a_write(errno.EIO, under="commitlog")
            if not is_taken_back:
                calls.fail("fstat", errno.EIO, under="commitlog")
            codes = [0, 0]

            async def send(number: int, body: bytes) -> None:
                answer = await client.send(body=body)
                codes[number] = answer.code
                assert ("was not stored" if is_taken_back else "is not known") in answer.remark

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, 0, b"small")
                nursery.start_soon(send, 1, b"small" * 2)
            told = ResponseCode.SERVICE_NOT_AVAILABLE if is_taken_back else ResponseCode.SYSTEM_ERROR
            assert codes == [told, told]
            broker.kill()
    async with broker_and_client(storage=RealStorage(tmp_path)) as (_, client):  # type: ignore[arg-type]
        found = await read_all(client, 0)
        assert found[0] == b"before"
        assert (len(found) > 1) == (not is_taken_back)


NOT_AT_START = ("mmap", "mlock", "rmdir", "unlink", "statvfs", "syncfs")
STARTS = [(call, codes[0]) for call, codes in CALLS.items() if call not in NOT_AT_START]
STARTS += [(call, code) for call, codes in AT_START.items() for code in codes]
STARTS += [("open", errno.EIO), ("pread", errno.EINTR), ("close", errno.EINTR)]


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize(("call", "code"), STARTS, ids=[f"{call}-{errno.errorcode[code]}" for call, code in STARTS])
async def test_a_start_that_a_fault_stops_is_told_and_loses_nothing(
    tmp_path: Path, autojump_clock: MockClock, call: str, code: int, lasting: bool
) -> None:
    """After a kill, when most is to be done. It may also succeed, where the fault strikes what can wait."""
    async with broker_and_client(storage=RealStorage(tmp_path), **SMALL) as (broker, client):  # type: ignore[arg-type]
        work = Work(client)
        await work_for(work, 3)
        broker.kill()
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        calls.fail(call, code, times=None if lasting else 1)
        store = MessageStore(RealStorage(tmp_path), settings(**SMALL).store)
        try:
            store.load()
        except StoreError as error:
            assert str(tmp_path) in str(error)  # noqa: PT017  it may succeed, too
        else:
            store.abandon()
        assert calls.struck, "the fault was never there"
    async with broker_and_client(storage=RealStorage(tmp_path), **SMALL) as (_, client):  # type: ignore[arg-type]
        for queue, kept in work.kept.items():
            check(await read_all(client, queue), kept, work.maybe)


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize("name", ["topics", "subscriptionGroup", "consumerOffset", "delayOffset"])
async def test_a_table_that_the_disk_does_not_give_is_not_taken_for_missing(
    tmp_path: Path, autojump_clock: MockClock, name: str, code: int
) -> None:
    """Nor is the older one beside it taken in its place: the start says so, and the next one has everything."""
    async with broker_and_client(storage=RealStorage(tmp_path), **SMALL) as (broker, client):  # type: ignore[arg-type]
        for number in range(3):
            assert (await client.send(f"T{number}")).code == ResponseCode.SUCCESS
            assert (await client.send(DELAYED, properties="DELAY\x011\x02")).code == ResponseCode.SUCCESS
            await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": f"G{number}"})
            fields = {"consumerGroup": f"G{number}", "topic": "T0", "queueId": "0", "commitOffset": "1"}
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == ResponseCode.SUCCESS
            await trio.sleep(12)
        before = (set(broker.topics.all()), set(broker.groups.all()))
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        calls.fail("read", code, times=1, under=f"config/{name}.json")
        with pytest.raises(StoreError, match=f"{name}.json"):
            Broker(settings(**SMALL), RealStorage(tmp_path)).recover()  # type: ignore[arg-type]
        assert calls.struck
    async with broker_and_client(storage=RealStorage(tmp_path), **SMALL) as (broker, client):  # type: ignore[arg-type]
        assert (set(broker.topics.all()), set(broker.groups.all())) == before
        assert [broker.offsets.queues(f"G{number}", "T0") for number in range(3)] == [{0: 1}] * 3
        await trio.sleep(3)
        assert len(await read_all(client, 0, DELAYED)) == 3
