"""Key values of a name server count in its budget: exactly, whatever is set, changed, deleted or could not be kept."""

from __future__ import annotations

import contextlib

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpy.errors import NoPermissionError, StoreError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.config import NamesrvConfig
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.namesrv.kv_config import KVConfig, taken_by
from rocketpy_broker_sim.serving.memory import MemoryBudget, TableRoom
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.namesrv.test_server import Peer

names = st.sampled_from(["", "a", "b" * 60, "ключ"])
values = st.sampled_from(["", "v", "w" * 900, "значение" * 40])


class KeyValues(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.budget, self.storage = MemoryBudget(16 * 1024), MemoryStorage()
        self.is_broken = False
        write = self.storage.write_bytes_atomic

        def write_or_fail(path: str, data: bytes, **more: str) -> None:
            if self.is_broken:
                raise OSError(5, "broken")
            write(path, data, **more)

        self.storage.write_bytes_atomic = write_or_fail  # type: ignore[method-assign]
        self.room = TableRoom(self.budget, "delete some")
        self.table = KVConfig(self.storage, room=self.room)

    @rule(namespace=names, key=names, value=values)
    def put(self, namespace: str, key: str, value: str) -> None:
        before = self.table.get(namespace, key), self.budget.tables
        try:
            self.table.put(namespace, key, value)
        except (NoPermissionError, StoreError):
            assert (self.table.get(namespace, key), self.budget.tables) == before
        else:
            assert self.table.get(namespace, key) == value
            assert self.budget.tables <= max(before[1], self.budget.most_in_tables)

    @rule(namespace=names, key=names)
    def delete(self, namespace: str, key: str) -> None:
        with contextlib.suppress(StoreError):
            self.table.delete(namespace, key)

    @rule(is_broken=st.booleans())
    def disk(self, is_broken: bool) -> None:
        self.is_broken = is_broken

    @rule()
    def start_again(self) -> None:
        self.room.set(0)
        self.table = KVConfig(self.storage, room=self.room)
        self.table.load()

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        assert self.budget.tables == self.room.taken == taken_by(self.table._table)


TestKeyValues = KeyValues.TestCase
TestKeyValues.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


async def test_a_full_table_of_key_values_says_what_to_do(autojump_clock):
    network = MemoryNetwork()
    async with (
        open_name_server(NamesrvConfig(max_kept_bytes=64 * 1024), network=network) as server,
        ConnectionPool(network).open() as pool,
    ):
        peer = Peer(server, pool)
        answers = [
            await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key=str(number), value="v" * 500)
            for number in range(40)
        ]
        codes = [answer.code for answer in answers]
        assert codes == [0] * codes.count(0) + [ResponseCode.NO_PERMISSION] * (40 - codes.count(0))
        assert 20 < codes.count(0) < 30
        assert "delete key values that are not needed, or raise maxKeptBytes" in answers[-1].remark
        assert (await peer.ask(RequestCode.DELETE_KV_CONFIG, namespace="n", key="0")).code == 0
        assert (await peer.ask(RequestCode.PUT_KV_CONFIG, namespace="n", key="x", value="v" * 500)).code == 0
