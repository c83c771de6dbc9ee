"""Messages without a key go to the queues in turn, also while there is no data connection yet."""

from __future__ import annotations

from collections import Counter

import pytest

import rocketpy.aio
import rocketpy.sync
from rocketpy import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.aio.running import run

QUEUES = 4


@pytest.fixture(scope="module")
def namesrv():
    with BlockingLocalCluster(brokers=2) as running:
        running.create_topic("Turns", queues=QUEUES)
        yield running.name_server_addresses


def even(queues, rounds):
    return sorted(Counter(queues).values()) == [rounds] * (2 * QUEUES)


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("way", ["send", "send_soon", "asyncio"])
def test_no_queue_is_left_out(namesrv, way, rounds):
    count = 2 * QUEUES * rounds
    if way == "asyncio":

        async def main():
            async with rocketpy.aio.Producer("turns", namesrv=namesrv) as producer:
                return [(await producer.send(Message("Turns", b"x"))).queue for _ in range(count)]

        queues = run(main)
    else:
        with rocketpy.sync.Producer("turns", namesrv=namesrv) as producer:
            if way == "send":
                queues = [producer.send(Message("Turns", b"x")).queue for _ in range(count)]
            else:
                queues = [producer.send_soon(Message("Turns", b"x")).result(20).queue for _ in range(count)]
    assert even(queues, rounds)
