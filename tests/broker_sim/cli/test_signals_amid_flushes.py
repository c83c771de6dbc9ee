"""A broker that gets a signal while it flushes: what it acknowledged is there, and no settings are half-written."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rocketpy.sync
from rocketpy import Message, RocketMQError
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.cli.servers import FREE_PORT, Place, Server, listens

pytestmark = pytest.mark.slow
SENDERS = 8
SYNC = FREE_PORT + "flushDiskType=SYNC_FLUSH\nflushConsumerOffsetInterval=50\n"


class Senders:
    """Threads that send as fast as they are answered, until the broker is gone."""

    def __init__(self, name_server: str) -> None:
        self.acknowledged: list[bytes] = []
        self._name_server = name_server
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        self._gone = threading.Event()
        self._more = threading.Semaphore(0)

    @contextmanager
    def running(self) -> Iterator[Senders]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._gone.set()
            for thread in self._threads:
                thread.join(30)

    def wait_for(self, count: int) -> None:
        while len(self.acknowledged) < count:
            assert self._more.acquire(timeout=30)

    def _send(self, number: int) -> None:
        with rocketpy.sync.Producer(f"p{number}", namesrv=self._name_server, send_timeout=2.0) as producer:
            for count in range(100_000):
                body = b"%d-%d" % (number, count)
                try:
                    producer.send(Message("T", body))
                except RocketMQError:
                    return
                self.acknowledged.append(body)
                self._more.release()
                if self._gone.is_set():
                    return


@contextmanager
def servers(place: Place) -> Iterator[tuple[str, Server]]:
    """A name server, and a broker that flushes before it answers."""
    with place.serving("rocketpy-namesrv", "-c", place.write("namesrv.conf", FREE_PORT)) as name_server:
        settings = place.write("broker.conf", SYNC)
        with place.serving("rocketpy-broker", "-c", settings, "-n", name_server.address) as broker:
            yield name_server.address, broker
        name_server.stop()


def stored(place: Place) -> set[bytes]:
    store = MessageStore(RealStorage(place.home / "store"), MessageStoreConfig())
    store.load()
    try:
        found = set()
        for queue_id in store.reads.queue_ids("T"):
            offset = 0
            while offset < store.reads.max_offset("T", queue_id):
                result = store.reads.get("T", queue_id, offset, 32)
                found |= {each.body for each in decode_messages(result.records)}
                offset = result.next_begin_offset
        return found
    finally:
        store.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_threat_L13_a_signal_amid_flushes_loses_nothing(place: Place, number: signal.Signals, times: int) -> None:
    with servers(place) as (name_server, broker), Senders(name_server).running() as senders:
        senders.wait_for(300)
        broker.send(number)
        if times == 2:
            while listens(broker.address):  # it closes its port first
                pass
            broker.send(number)
        end = broker.wait_end()
    assert "Traceback" not in end.err
    if times == 1:
        assert end.status == 0
        assert not (place.home / "store" / "abort").exists()
    else:
        assert end.status in (0, -number)
    for file in (place.home / "store" / "config").glob("*.json"):
        json.loads(file.read_text("utf-8"))
    assert set(senders.acknowledged) <= stored(place)
