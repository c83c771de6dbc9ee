"""What the store's tests share: small stores, messages, and a look at everything that can be read."""

from __future__ import annotations

from rocketpy.message import MessageExt
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import GetMessageStatus, IncomingMessage, PutMessageResult, PutMessageStatus

HOST = bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
HOST_V6 = bytes(15) + b"\x01" + (10911).to_bytes(4, "big")
OK = PutMessageStatus.PUT_OK


def small_config(**settings) -> MessageStoreConfig:
    """Files so small that a few messages roll them."""
    return MessageStoreConfig(
        **{
            "mapped_file_size_commit_log": 4096,
            "mapped_file_size_consume_queue": 200,
            "max_hash_slot_num": 10,
            "max_index_num": 40,
            **settings,
        }
    )


def open_store(storage: MemoryStorage | None = None, *, on_arrival=None, **settings) -> MessageStore:
    """A loaded store; `on_arrival` is called with whatever its `reput` returns."""
    store = ToldStore(MemoryStorage() if storage is None else storage, small_config(**settings))
    store.on_arrival = on_arrival
    store.load()
    return store


class ToldStore(MessageStore):
    on_arrival = None

    def reput(self):
        arrived = super().reput()
        for arrival in arrived if self.on_arrival is not None else ():
            self.on_arrival(arrival)
        return arrived


def message(body: bytes = b"body", *, topic: str = "Orders", queue_id: int = 0, **fields) -> IncomingMessage:
    return IncomingMessage(topic, queue_id, body, **{"born_host": HOST, "store_host": HOST, **fields})


def put_all(store: MessageStore, messages: list[IncomingMessage]) -> list[PutMessageResult]:
    """Put, write and dispatch."""
    results = [store.put(each) for each in messages]
    assert [result.status for result in results] == [OK] * len(results)
    store.commit_pending()
    store.reput()
    while store.can_reput:
        store.reput()
    return results


def read_queue(store: MessageStore, topic: str = "Orders", queue_id: int = 0) -> list[MessageExt]:
    """Every message of a queue, by reads that go on where the last one said."""
    found: list[MessageExt] = []
    offset = store.reads.min_offset(topic, queue_id)
    while offset < store.reads.max_offset(topic, queue_id):
        result = store.reads.get(topic, queue_id, offset, 32)
        messages = decode_messages(result.records)
        assert result.status is GetMessageStatus.FOUND
        assert [each.queue_offset for each in messages] == list(range(offset, result.next_begin_offset))
        found += messages
        offset = result.next_begin_offset
    return found


def bodies(store: MessageStore, topic: str = "Orders", queue_id: int = 0) -> list[bytes]:
    return [each.body for each in read_queue(store, topic, queue_id)]
