"""A store directory handed from our broker's store to Apache's broker and back: every message, at its offset."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING

import pytest

from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.interop import probe
from tests.interop.drivers import java_produce, java_push_consumer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster

pytestmark = pytest.mark.interop

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
SIZES = {"mappedFileSizeCommitLog": 65_536, "mappedFileSizeConsumeQueue": 1_000}
COUNT = 800
QUEUES = 4


def opened(root: Path) -> MessageStore:
    """Our store with the sizes that Apache's broker is given."""
    config = MessageStoreConfig(
        mapped_file_size_commit_log=SIZES["mappedFileSizeCommitLog"],
        mapped_file_size_consume_queue=SIZES["mappedFileSizeConsumeQueue"],
    )
    store = MessageStore(RealStorage(root), config)
    store.load()
    return store


def fill(store: MessageStore, topic: str) -> None:
    for n in range(COUNT):
        properties = f"KEYS\x01key-{n}\x02TAGS\x01{('red', 'green')[n % 2]}\x02"
        body = b"body-%d" % n
        store.put(IncomingMessage(topic, n % QUEUES, body, properties, born_host=HOST, store_host=HOST))
        if n % 50 == 49:
            store.commit_pending()
            store.reput()


def bodies(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < store.max_offset(topic, queue_id):
        messages = decode_messages(store.get(topic, queue_id, len(found), 32).records)
        assert messages
        found += [message.body for message in messages]
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_apaches_broker_goes_on_with_our_store_and_we_with_its(
    apache: Apache, apache_cluster: Cluster, tmp_path: Path, killed: bool
) -> None:
    topic = f"Handed-{'killed' if killed else 'stopped'}"
    home = tmp_path / "apache"
    store = opened(tmp_path / "ours")
    fill(store, topic)
    if killed:
        shutil.copytree(tmp_path / "ours", home / "store")
        store.close()
    else:
        store.close()
        shutil.copytree(tmp_path / "ours", home / "store")
    with apache.broker(apache_cluster.namesrv, name=f"broker-{topic}", home=home, overrides=SIZES) as broker:
        probe.create_topic(broker.address, topic, queues=QUEUES)
        probe.wait_route(apache_cluster.namesrv, topic)
        with java_push_consumer(apache, apache_cluster.namesrv, f"{topic}-group", topic) as consumer:
            seen = consumer.wait_messages(COUNT)
        places = {(each["queueId"], each["queueOffset"]): base64.b64decode(each["body"]) for each in seen}
        assert places == {(n % QUEUES, n // QUEUES): b"body-%d" % n for n in range(COUNT)}
        assert {each["tags"] for each in seen} == {"red", "green"}
        sent = java_produce(apache, apache_cluster.namesrv, topic, 200)
        if killed:
            broker.process.kill()
    again = opened(home / "store")
    for queue_id in range(QUEUES):
        expected = [b"body-%d" % n for n in range(queue_id, COUNT, QUEUES)]
        theirs = [each for each in sent.results if each["queueId"] == queue_id]
        found = bodies(again, topic, queue_id)
        assert found[: len(expected)] == expected
        assert len(found) == len(expected) + len(theirs)
        assert sorted(each["queueOffset"] for each in theirs) == list(range(len(expected), len(found)))
    again.close()
