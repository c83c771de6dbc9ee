"""The key values of a name server as its file holds them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.namesrv.kv_config import FILE_NAME, KVChange, KVConfig
from rocketpy_broker_sim.namesrv.kv_writer import KVWriter
from rocketpy_broker_sim.store.disk.memory import MemoryStorage


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, b"\xff", b"[]", b"{}", b'{"configTable":{"n":7}}', b"[" * 200_000])
def test_a_file_that_is_none_is_refused_by_name(data: bytes) -> None:
    """Whatever stands there, the operator is told which file it is, and nothing is changed."""
    storage = MemoryStorage()
    storage.write_bytes_atomic(FILE_NAME, data)
    with pytest.raises(StoreCorruptError, match=rf"{FILE_NAME} is not a key-value file: repair it or move it away"):
        KVConfig(storage).load()
    assert storage.read_bytes(FILE_NAME) == data


async def test_thousands_of_changes_are_made_and_answered_a_few_in_a_turn(autojump_clock: MockClock) -> None:
    """Each of ten thousand connections may have one waiting: all in one turn would hold up everybody."""
    table = KVConfig(MemoryStorage())
    writer = KVWriter(table)
    turns, told_in, most = 0, [], 1000
    for number in range(most):
        assert writer.change(KVChange(namespace="n", key=str(number), value="v"), lambda _: told_in.append(turns))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.serve)
        while len(told_in) < most:
            await trio.lowlevel.checkpoint()
            turns += 1
        nursery.cancel_scope.cancel()
    assert max(told_in.count(turn) for turn in set(told_in)) <= 128
    assert table.get("n", str(most - 1)) == "v"
