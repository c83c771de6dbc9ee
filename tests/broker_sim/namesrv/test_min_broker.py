"""Brokers hear when the lowest id of their group changes, over a memory network in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio

from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.server import serve
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers import route as headers
from rocketpy_broker_sim.config import NamesrvConfig
from rocketpy_broker_sim.namesrv import open_name_server
from rocketpy_broker_sim.namesrv.min_broker import MinBrokerChange, MinBrokerNotifier
from tests.broker_sim.namesrv.test_server import Peer, body, register

ADDRESSES = {0: "127.0.0.1:10911", 1: "127.0.0.1:20911", 2: "127.0.0.1:30911"}


class Group:
    """Three brokers of one name, of which some are registered; each notes what it is told."""

    def __init__(self, peer):
        self.peer = peer
        self.heard = []

    def listen(self, broker_id, connection, request):
        self.heard.append((broker_id, headers.NotifyMinBrokerIdChangeRequestHeader.from_ext(request.ext_fields)))

    async def join(self, broker_id, *, acting=True):
        fields = {"broker_id": broker_id, "broker_addr": ADDRESSES[broker_id], "enable_acting_master": acting}
        command = register(body("t1", "t2").encode(), **fields)
        command.ext_fields["haServerAddr"] = f"ha-{broker_id}"
        assert (await self.peer.ask(command)).code == 0
        await trio.sleep(0.01)

    async def leave(self, broker_id):
        fields = {"clusterName": "c", "brokerName": "b", "brokerAddr": ADDRESSES[broker_id], "brokerId": str(broker_id)}
        assert (await self.peer.ask(RequestCode.UNREGISTER_BROKER, **fields)).code == 0
        await trio.sleep(0.01)

    def take(self):
        found, self.heard = self.heard, []
        return {
            number: (h.min_broker_id, h.min_broker_addr, h.offline_broker_addr, h.ha_broker_addr) for number, h in found
        }


@asynccontextmanager
async def group(**settings):
    network = MemoryNetwork()
    async with (
        open_name_server(NamesrvConfig(**settings), network=network) as server,
        ConnectionPool(network).open() as pool,
        trio.open_nursery() as nursery,
    ):
        made = Group(Peer(server, pool))
        for broker_id, address in ADDRESSES.items():
            table = {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: partial(made.listen, broker_id)}
            host, _, port = address.rpartition(":")
            await nursery.start(partial(serve, network, host, int(port), RequestDispatcher(table)))
        yield made
        nursery.cancel_scope.cancel()


async def test_N6_brokers_hear_when_the_lowest_id_of_their_group_changes(autojump_clock):
    async with group(notify_min_broker_id_changed=True) as brokers:
        await brokers.join(1)
        await brokers.join(2)
        assert brokers.take() == {}
        await brokers.join(0)
        joined = (0, ADDRESSES[0], None, "ha-0")
        assert brokers.take() == {1: joined, 2: joined}
        await brokers.leave(2)
        assert brokers.take() == {}
        await brokers.leave(0)
        assert brokers.take() == {1: (1, ADDRESSES[1], ADDRESSES[0], None)}
        await brokers.leave(1)
        assert brokers.take() == {}


async def test_N6_a_lone_slave_that_becomes_master_hears_of_itself(autojump_clock):
    async with group(notify_min_broker_id_changed=True) as brokers:
        await brokers.join(1)
        fields = {"broker_id": 0, "broker_addr": ADDRESSES[1], "enable_acting_master": True}
        await brokers.peer.ask(register(body("t1", "t2").encode(), **fields))
        await trio.sleep(0.01)
        assert brokers.take() == {1: (0, ADDRESSES[1], None, "127.0.0.1:10912")}


async def test_N6_nobody_is_told_when_it_is_switched_off_or_slaves_may_not_act(autojump_clock):
    async with group() as brokers:
        await brokers.join(1)
        await brokers.join(0)
        await brokers.leave(0)
        assert brokers.take() == {}
    async with group(notify_min_broker_id_changed=True) as brokers:
        await brokers.join(0, acting=False)
        await brokers.join(1, acting=False)
        await brokers.leave(0)
        assert brokers.take() == {}


async def test_N6_a_broker_that_cannot_be_reached_keeps_nobody_waiting(autojump_clock):
    async with group(notify_min_broker_id_changed=True) as brokers:
        away = {"broker_id": 2, "broker_addr": "nobody:1", "enable_acting_master": True}
        await brokers.peer.ask(register(body("t1", "t2").encode(), **away))
        await brokers.join(1)
        brokers.take()
        before = trio.current_time()
        await brokers.join(0)
        assert trio.current_time() - before < 0.1
        assert set(brokers.take()) == {1}


async def test_threat_L8_few_brokers_are_told_at_a_time_and_the_rest_in_one_line(autojump_clock, caplog):
    addresses = tuple(f"nobody:{port}" for port in range(1, 1001))
    change = MinBrokerChange(
        broker_name="b", min_broker_id=0, min_broker_address="a:1", offline_address=None, ha_address="", tell=addresses
    )
    async with ConnectionPool(MemoryNetwork()).open() as pool, trio.open_nursery() as nursery:
        notifier = MinBrokerNotifier(pool, nursery)
        notifier.tell(change)
        assert len(nursery.child_tasks) == 256
        notifier.tell(change)
        assert len(nursery.child_tasks) == 256
        await trio.sleep(1)
        assert not nursery.child_tasks
    told = [record.getMessage() for record in caplog.records if "are not notified" in record.getMessage()]
    assert [line.split()[0] for line in told] == ["744", "1000"]
