"""Slow and failing brokers on every surface: sends over connections of their own obey the one table and fill it."""

from __future__ import annotations

import time

import pytest

from rocketpy import LatencyTable, Message, MessageQueue
from rocketpy.errors import BrokerError, RequestTimeoutError, SendError
from rocketpy_broker_sim.cluster.blocking import BlockingLocalCluster
from tests.surfaces.surface import call, entered

SLOW = 1.5
"""Seconds, well above the second from which a broker is avoided: a send that only this machine slows down is below."""
REST = 4.0
"""Eight sends to the other broker are over long before."""
TABLE = LatencyTable(latency_max_ms=(1000,), not_available_ms=(int(REST * 1000),), isolation_ms=1000)
PATIENCE = 10.0


@pytest.fixture(scope="module")
def pair():
    with BlockingLocalCluster(brokers=2) as cluster:
        cluster.create_topic("Pair")
        yield cluster


@pytest.fixture
def cluster(pair):
    yield pair
    pair.heal()


def producing(surface, cluster, table=TABLE, **settings):
    settings = {"send_latency_enable": True, "latency_table": table, **settings}
    return entered(surface.module.Producer("faults", namesrv=cluster.name_server_addresses, **settings))


async def warmed(producer, surface):
    """Every broker has a connection, of the threads' or of the loop's own where the surface has such."""
    inner = getattr(producer, "_inner", producer)
    until = time.monotonic() + PATIENCE
    for _ in range(8):
        await call(producer.send(message()))
    while surface.name != "trio" and len(inner.client.data_links.all()) < 2:
        assert time.monotonic() < until
        await call(producer.send(message()))


def message():
    return Message("Pair", b"x")


async def where(producer, count=8):
    return [(await call(producer.send(message()))).queue.broker_name for _ in range(count)]


async def until_it_is_held_against(producer, name):
    """Send until a broker has been met."""
    for _ in range(8):
        await call(producer.send(message()))
        if name in producer.statistics().faults.brokers:
            return
    raise AssertionError(producer.statistics())


@pytest.mark.slow
@pytest.mark.waits("a broker is slow, and rests")
def test_S13_a_slow_broker_rests_and_then_gets_a_single_probe(surface, cluster):
    def let_rest(producer, name):
        time.sleep(producer.statistics().faults.brokers[name].available_in + 0.01)

    async def main():
        async with producing(surface, cluster, send_timeout=20) as producer:
            await warmed(producer, surface)
            names = sorted({queue.broker_name for queue in await call(producer.queues("Pair"))})
            cluster.delay_sends(SLOW, broker=0)
            await until_it_is_held_against(producer, names[0])
            fault = producer.statistics().faults.brokers[names[0]]
            assert SLOW <= fault.latency < 15
            assert 0 < fault.available_in <= REST
            assert (fault.reachable, fault.probing) == (True, False)
            assert set(await where(producer)) == {names[1]}
            let_rest(producer, names[0])
            assert producer.statistics().faults.brokers[names[0]].available_in == 0
            assert set(await where(producer)) == set(names)
            faults = producer.statistics().faults
            assert (faults.brokers, faults.isolations, faults.probes) == ({}, 1, 1)

    surface.run(main)


def test_S13_a_broker_that_fails_is_passed_over_and_oneway_sends_obey(surface, cluster):
    async def main():
        async with producing(surface, cluster, "4.x") as producer:
            await warmed(producer, surface)
            cluster.refuse_sends(1, broker=1)
            name = sorted({queue.broker_name for queue in await call(producer.queues("Pair"))})[1]
            await until_it_is_held_against(producer, name)
            assert 590 < producer.statistics().faults.brokers[name].available_in <= 600
            before = cluster.messages("Pair")
            assert name not in await where(producer)
            for _ in range(8):
                await call(producer.send_oneway(message()))
            await call(producer.send(message()))
            until = time.monotonic() + PATIENCE
            while len(cluster.messages("Pair")) < len(before) + 17:
                assert time.monotonic() < until
            new = cluster.messages("Pair")
            assert sum(each.broker_name == name for each in new) == sum(each.broker_name == name for each in before)

    surface.run(main)


@pytest.mark.waits("a broker never answers")
def test_an_error_tells_of_each_try_on_every_surface(surface, cluster):
    async def main():
        async with producing(surface, cluster, send_latency_enable=False) as producer:
            await warmed(producer, surface)
            queues = await call(producer.queues("Pair"))
            cluster.refuse_sends(3, code=14)
            with pytest.raises(SendError) as caught:
                await call(producer.send(message()))
            assert all(each.queue in queues and each.elapsed >= 0 and each.address for each in caught.value.attempts)
            assert len({each.queue.broker_name for each in caught.value.attempts}) == 2
            cluster.refuse_sends(1, code=13)
            with pytest.raises(BrokerError) as refused:
                await call(producer.send(message(), queue=queues[0]))
            [only] = refused.value.attempts
            assert (only.queue, only.error) == (MessageQueue("Pair", queues[0].broker_name, 0), refused.value)
            cluster.lose_answers(1)
            with pytest.raises(RequestTimeoutError) as silent:
                await call(producer.send(message(), queue=queues[0], timeout=0.2))
            assert [each.elapsed >= 0.2 for each in silent.value.attempts] == [True]

    surface.run(main)
