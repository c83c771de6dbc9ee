"""The key values of a name server as its file holds them."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.namesrv.kv_config import FILE_NAME, KVConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage


@pytest.mark.parametrize("data", [b"", b"\0" * 4096, b"\xff", b"[]", b"{}", b'{"configTable":{"n":7}}', b"[" * 200_000])
def test_a_file_that_is_none_is_refused_by_name(data: bytes) -> None:
    """Whatever stands there, the operator is told which file it is, and nothing is changed."""
    storage = MemoryStorage()
    storage.write_bytes_atomic(FILE_NAME, data)
    with pytest.raises(StoreCorruptError, match=rf"{FILE_NAME} is not a key-value file: repair it or move it away"):
        KVConfig(storage).load()
    assert storage.read_bytes(FILE_NAME) == data
