"""What peers make a name server keep stays within its budget, and nothing is left counted when they have gone."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from rocketpy.remoting.limits import ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers import route as headers
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.namesrv.kv_config import KVConfig
from rocketpy_broker_sim.serving.memory import REGISTRATIONS
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.namesrv.test_large_tables import MOST_SECONDS, longest
from tests.broker_sim.namesrv.test_server import Peer, body, register, running

KIB = 1024
TOPICS = body(*(f"t{number}" for number in range(100))).encode()


def of(number, data=TOPICS):
    return register(data, broker_name=f"b{number}", broker_addr=f"10.0.0.1:{number}")


async def test_many_brokers_of_one_connection_stay_within_the_budget(autojump_clock):
    most = 600 * KIB
    async with running(limits=ServerLimits(max_kept=most)) as peer:
        server = peer.server
        codes = []
        for number in range(40):
            codes.append((await peer.ask(of(number))).code)
            assert server.memory.kept <= most
            assert server.memory.kinds() == {REGISTRATIONS: server.memory.kept}
        taken = codes.count(0)
        assert 5 < taken < 20
        assert codes == [0] * taken + [ResponseCode.SYSTEM_ERROR] * (40 - taken)
        # Those that are known stay so, and are told nothing else.
        assert (await peer.ask(of(0))).code == 0
        assert len(server.routes.live) == taken


async def test_a_broker_that_leaves_makes_room(autojump_clock):
    async with running(limits=ServerLimits(max_kept=140 * KIB)) as peer:
        assert (await peer.ask(of(0))).code == 0
        kept = peer.server.memory.kept
        assert kept == peer.server.routes.table.bytes + 4096
        assert (await peer.ask(of(1))).code == ResponseCode.SYSTEM_ERROR
        header = headers.UnRegisterBrokerRequestHeader(
            broker_name="b0", broker_addr="10.0.0.1:0", cluster_name="c", broker_id=0
        )
        assert (await peer.ask(RequestCode.UNREGISTER_BROKER, header)).code == 0
        assert peer.server.memory.kept == 0
        assert (await peer.ask(of(1))).code == 0
        assert peer.server.memory.kept == kept


async def test_the_connection_of_most_registrations_gives_way_to_another_broker(autojump_clock):
    network = MemoryNetwork()
    limits = ServerLimits(max_kept=600 * KIB)
    async with open_name_server(network=network, limits=limits) as server:
        async with ConnectionPool(network).open() as one, ConnectionPool(network).open() as two:
            greedy, modest = Peer(server, one), Peer(server, two)
            for number in range(11):
                assert (await greedy.ask(of(number))).code == 0
            assert (await modest.ask(of(100))).code == 0
            assert (await modest.ask(of(101))).code == 0
            assert {"b100", "b101"} == set(server.routes.brokers)
            assert server.memory.kept == server.routes.table.bytes + 2 * 4096


async def test_the_version_of_a_table_is_bounded_as_a_request_that_is_about_one_thing(autojump_clock):
    """It was read with what a client allows the servers that it asks, a hundred times as much."""
    async with running() as peer:
        assert (await peer.ask(of(0))).code == 0
        header = headers.QueryDataVersionRequestHeader(
            broker_name="b0", broker_addr="10.0.0.1:0", cluster_name="c", broker_id=0
        )
        many = b'{"counter":1,"timestamp":1,"x":[' + b"1," * 2020 + b"1]}"
        assert (await peer.ask(RequestCode.QUERY_DATA_VERSION, header, many)).code == ResponseCode.SYSTEM_ERROR
        few = b'{"counter":1,"timestamp":1,"x":[1,2]}'
        assert (await peer.ask(RequestCode.QUERY_DATA_VERSION, header, few)).code == 0


def table_of(values):
    table = KVConfig()
    for key, value in values.items():
        table.put("n", key, value)
    return table


@pytest.mark.slow
async def test_the_file_of_the_key_values_is_written_in_small_steps_and_copied_once():
    """It was put together as one text, and again as a longer one, and again, in one turn."""
    table = table_of({key: key * (1000 * KIB) for key in "abcd"})
    tracemalloc.start()
    try:
        worst, pieces = longest(lambda: table.encode_steps(table.draft()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert worst < MOST_SECONDS
    assert peak < 2.6 * sum(map(len, pieces))  # the one of the first try, and that of the second as it grows


@pytest.mark.slow
async def test_the_file_of_the_key_values_is_what_it_was():
    storage = MemoryStorage()
    table = KVConfig(storage)
    table.put("n", "a", "1")
    table.put("n", 'b"', "ü")
    table.put("m", "c", "")
    wanted = '{\n "configTable": {\n  "n": {\n   "a": "1",\n   "b\\"": "ü"\n  },\n  "m": {\n   "c": ""\n  }\n }\n}'
    assert storage.read_bytes("kvConfig.json").decode() == wanted
    for key in ("a", 'b"'):
        table.delete("n", key)
    table.delete("m", "c")
    assert storage.read_bytes("kvConfig.json") == b'{\n "configTable": {}\n}'
    large = table_of({str(number): "x" * 100 for number in range(3000)})
    data = b"".join(run_steps(large.encode_steps(large.draft())))
    assert json.loads(data)["configTable"]["n"] == dict(large.namespace("n"))
