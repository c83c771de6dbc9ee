"""Every system call by which a name server keeps its key values fails, once and for ten seconds."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import StoreError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import GetKVConfigRequestHeader, PutKVConfigRequestHeader
from rocketpy_broker_sim.namesrv.kv_config import FILE_NAME, KVChange, KVConfig
from rocketpy_broker_sim.namesrv.server import open_name_server
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.kit import Client, client_of
from tests.broker_sim.namesrv.test_server import body, register
from tests.hostile.system_calls import CALLS, SystemCalls

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are named by /proc here")

WRITING = ("open", "pwrite", "ftruncate", "sync_data", "fsync", "replace", "close")
CELLS = [
    pytest.param(
        call,
        code,
        seconds,
        id=f"{call}-{errno.errorcode.get(code, 'short')}-{seconds}s",
        marks=() if code == CALLS[call][0] else (pytest.mark.matrix,),
    )
    for call in WRITING
    for code in CALLS[call]
    for seconds in (0, 10)
]
LOSES_NOTHING = {("close", code) for code in CALLS["close"]}
"""By then the disk has everything."""


class Work:
    """What one operator does, and what it was told.

    Attributes:
        may_be: What the value may be now, by key: the one that was acknowledged last, and those refused after it.
        refused: Remarks of refusals.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.may_be: dict[str, list[str]] = {}
        self.refused: list[str] = []
        self._number = 0

    async def round(self) -> None:
        """Set a value, and then the one before it again; and register, which has nothing to do with the disk."""
        self._number += 1
        key = f"key{self._number % 3}"
        before = self.may_be.get(key, [""])[0]
        await self._put(key, f"value{self._number}")
        if self._number % 4 == 0 and before:
            await self._put(key, before)
        assert (await self.client.connection.request(_registration(), timeout=60)).code == ResponseCode.SUCCESS

    async def _put(self, key: str, value: str) -> None:
        header = PutKVConfigRequestHeader(namespace="n", key=key, value=value)
        answer = await self.client.ask(RequestCode.PUT_KV_CONFIG, header.to_ext())
        if answer.code == ResponseCode.SUCCESS:
            self.may_be[key] = [value]
        else:
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark
            self.refused.append(answer.remark)
            self.may_be.setdefault(key, [""]).append(value)

    async def check(self, client: Client, *, restarted: bool) -> None:
        """What was acknowledged last holds. What was refused after it may have come to the disk before a restart."""
        for key, values in self.may_be.items():
            answer = await client.ask(
                RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace="n", key=key).to_ext()
            )
            assert (answer.ext_fields or {}).get("value", "") in (values if restarted else values[:1])


def _registration() -> RemotingCommand:
    command: RemotingCommand = register(body("one", "two").encode(), broker_name="b", broker_addr="10.0.0.1:1")
    return command


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Client]:
    network = MemoryNetwork()
    async with open_name_server(network=network, storage=RealStorage(folder)) as server:
        async with client_of(network, server.address) as client:
            yield client


async def work_for(work: Work, seconds: float) -> None:
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await work.round()
        await trio.sleep(0.25)


@pytest.mark.parametrize(("call", "code", "seconds"), CELLS)
@pytest.mark.parametrize("is_restarted_at_once", [False, True], ids=["goes on", "killed"])
async def test_a_fault_of_the_disk_of_a_name_server(
    tmp_path: Path, autojump_clock: MockClock, call: str, code: int, seconds: int, is_restarted_at_once: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        async with running(tmp_path) as client:
            work = Work(client)
            await work_for(work, 3)
            assert not work.refused
            calls.fail(call, code, times=None if seconds else 1)
            await work_for(work, seconds or 1)
            assert calls.struck, "the fault was never there"
            if (call, code) in LOSES_NOTHING:
                assert not work.refused
            await work.check(client, restarted=False)
            calls.heal()
            if not is_restarted_at_once:
                count = len(work.refused)
                await work_for(work, 3)
                assert len(work.refused) == count
                await work.check(client, restarted=False)
    async with running(tmp_path) as client:
        await work.check(client, restarted=is_restarted_at_once)


def test_a_value_that_is_set_again_after_a_failed_change_is_on_the_disk(tmp_path: Path) -> None:
    """The change may have come there, and only the folder was not flushed."""
    with pytest.MonkeyPatch.context() as patch:
        calls = SystemCalls(tmp_path, patch)
        table = KVConfig(RealStorage(tmp_path))
        table.put("n", "k", "old")
        calls.fail("fsync", errno.EIO, times=1)
        with pytest.raises(StoreError):
            table.put("n", "k", "new")
        assert table.get("n", "k") == "old"
        table.change(KVChange(namespace="n", key="k", value="old"))
    again = KVConfig(RealStorage(tmp_path))
    again.load()
    assert again.get("n", "k") == "old"


@pytest.mark.parametrize("code", CALLS["stat"])
def test_a_table_that_cannot_be_looked_for_is_not_taken_for_missing(tmp_path: Path, code: int) -> None:
    """The next change would write over it."""
    table = KVConfig(RealStorage(tmp_path))
    table.put("n", "k", "v")
    with pytest.MonkeyPatch.context() as patch:
        SystemCalls(tmp_path, patch).fail("stat", code)
        with pytest.raises(StoreError, match=FILE_NAME):
            KVConfig(RealStorage(tmp_path)).load()
