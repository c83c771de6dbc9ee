"""Every public call of Admin, on every surface: what one does not pass on, or converts wrongly, is found here."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, GroupNotFoundError, Message, RetryLater
from rocketpy_broker_sim import BlockingLocalCluster
from tests.rules import listed
from tests.surfaces.admin_calls import CALLS, Place, every_call
from tests.surfaces.conftest import surface
from tests.surfaces.surface import call, entered
from tests.tables import Table

__all__ = ["surface"]

pytestmark = pytest.mark.waits("waits until a real broker has heard of members and dead letters")

WITHIN = 10.0


@pytest.fixture(scope="module")
def traced_cluster():
    """One whose settings calls may change."""
    with BlockingLocalCluster(trace_topic_enable=True) as running:
        yield running


@pytest.fixture
def place(traced_cluster, surface):
    """A topic with messages, a group with a member, and a producer of which its broker knows."""
    topic, group, shop = f"Topic-{surface.name}", f"group-{surface.name}", f"shop-{surface.name}"
    traced_cluster.create_topic(topic, queues=1)
    namesrv = traced_cluster.name_server_addresses
    settings = {"namesrv": namesrv, "heartbeat_broker_interval": 0.05}
    with rocketpy.sync.Producer(f"{shop}-traced", namesrv=namesrv, enable_msg_trace=True) as producer:
        traced = producer.send(Message(topic, b"traced")).message_id
    consumer = rocketpy.sync.PushConsumer(
        group, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **settings
    )
    consumer.subscribe(topic, lambda message: RetryLater(-1) if message.tags == "dead" else None)
    with ExitStack() as stack:
        producer = stack.enter_context(rocketpy.sync.Producer(shop, **settings))
        producer.send(Message(topic, b"keyed", keys=["k"]))
        producer.send(Message(topic, b"dead", tags="dead"))
        stack.enter_context(consumer)
        traced_cluster.wait_dead_letters(group)
        consumer.commit(WITHIN)
        _, keyed, _ = traced_cluster.messages(topic)
        wait_known(stack.enter_context(producer.admin()), shop)
        yield Place(namesrv, topic, group, consumer._inner.client.client_id, shop, keyed, traced)


def wait_known(admin, shop):
    """A producer is known by the heartbeats that follow its first message."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            if admin.producers.connections(shop):
                return
        except GroupNotFoundError:
            assert time.monotonic() < deadline, "the producer is not known"
        time.sleep(0.01)


def test_every_public_call_of_admin_has_a_row():
    calls = set(every_call())
    assert len(calls) >= 50
    listed((f"{name} has no row" for name in sorted(calls - CALLS.keys())), "add it to tests/surfaces/admin_calls.py")
    assert CALLS.keys() <= calls


def test_every_call_of_admin_works(surface, place):
    async def main():
        async with entered(surface.module.Admin(namesrv=place.namesrv)) as admin:
            with Table() as table:
                for name, (make, right) in CALLS.items():
                    with table.row(name):
                        answer = await call(make(admin, place))
                        assert right(answer, place), f"it answers {answer!r:.500}"

    surface.run(main)
