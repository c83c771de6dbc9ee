"""Data connections of a client: when they are made, and who uses them."""

from __future__ import annotations

import threading
import time

import pytest

import rocketpy.sync
from rocketpy import Message
from rocketpy.remoting.hooks import RequestHook
from rocketpy_broker_sim import BlockingLocalCluster

pytestmark = pytest.mark.waits("looks until real threads on real sockets have come to a state")

PATIENCE = 10.0


@pytest.fixture(scope="module")
def cluster():
    with BlockingLocalCluster() as running:
        yield running


def links(producer):
    return producer._inner.client.data_links


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def warm(producer, topic="Links"):
    def one():
        producer.send(Message(topic, b"x"))
        return links(producer).all()

    eventually(one)


def test_the_first_sends_make_one_and_the_next_ones_use_it(cluster):
    with rocketpy.sync.Producer("links", namesrv=cluster.name_server_addresses) as producer:
        assert links(producer).all() == []
        warm(producer)
        [link] = links(producer).all()
        before = link.uses
        for _ in range(5):
            producer.send(Message("Links", b"x"))
        assert link.uses == before + 5
        assert producer.send_soon(Message("Links", b"x")).result(PATIENCE)
        assert link.uses == before + 6


def test_closing_ends_its_threads_and_its_socket(cluster):
    before = threading.active_count()
    with rocketpy.sync.Producer("links", namesrv=cluster.name_server_addresses) as producer:
        warm(producer)
        for future in [producer.send_soon(Message("Links", b"x")) for _ in range(100)]:
            future.add_done_callback(lambda done: None)
            future.result(PATIENCE)
        [link] = links(producer).all()
    assert link.error is not None
    eventually(lambda: link._socket.fileno() == -1)
    eventually(lambda: threading.active_count() <= before + 1)  # the portal may have been started in here


def test_another_one_is_made_after_a_restart_of_the_broker():
    with BlockingLocalCluster() as cluster:
        with rocketpy.sync.Producer("links", namesrv=cluster.name_server_addresses) as producer:
            warm(producer)
            [first] = links(producer).all()
            cluster.restart_broker(0)
            warm(producer)
            eventually(lambda: producer.send(Message("Links", b"x")) and links(producer).all()[0].is_usable)
            assert links(producer).all()[0] is not first
            assert first.error is not None


def test_hooks_of_users_see_every_request_so_there_is_none(cluster):
    class Counting(RequestHook):
        seen = 0

        def before_request(self, address, command):
            Counting.seen += 1

        def after_answer(self, address, command, answer):
            pass

    with (
        rocketpy.sync.MQClientInstance(namesrv=cluster.name_server_addresses, hooks=[Counting()]) as client,
        rocketpy.sync.Producer("links", client=client) as producer,
    ):
        producer.send(Message("Links", b"x"))
        before = Counting.seen
        for _ in range(10):
            producer.send(Message("Links", b"x"))
        assert Counting.seen >= before + 10
        assert links(producer).all() == []


def test_producers_that_share_a_client_share_its_data_connection(cluster):
    with (
        rocketpy.sync.MQClientInstance(namesrv=cluster.name_server_addresses) as client,
        rocketpy.sync.Producer("links-a", client=client) as one,
        rocketpy.sync.Producer("links-b", client=client) as other,
    ):
        warm(one)
        other.send(Message("Links", b"x"))
        assert links(one) is links(other)
        assert len(links(one).all()) == 1
