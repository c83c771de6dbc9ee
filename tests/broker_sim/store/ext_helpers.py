"""Stores whose messages have bit maps, and what stands in their queues."""

from __future__ import annotations

from collections.abc import Container, Sequence

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import message, open_store

FILE = 1024
EXT = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": FILE}
BITS = b"\x01"


class Everything:
    """Has every topic in it."""

    def __contains__(self, _: object) -> bool:
        return True


class Bits:
    """Gives the messages of some topics a bit map."""

    def __init__(self, topics: Container[str]) -> None:
        self.topics = topics

    def begin(self) -> Container[str]:
        return self.topics

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        assert topic in self.topics
        return [BITS] * len(properties)


def open_ext(storage: MemoryStorage | None = None, topics: Container[str] | None = None):
    """A store that gives each message a bit map; or those of some topics."""
    store = open_store(storage or MemoryStorage(), **EXT)
    store.keep_bit_maps(Bits(Everything() if topics is None else topics))
    return store


def tagged(number: int, **fields):
    return message(b"%d" % number, properties=encode_properties({"TAGS": f"t{number % 3}"}), **fields)


def by_tag(store, tag: str) -> list[bytes]:
    offset, found = 0, []
    while offset < store.reads.max_offset("Orders", 0):
        result = store.reads.get("Orders", 0, offset, 32, match={tags_code(tag)}.__contains__)
        found += [each.body for each in decode_messages(result.records)]
        offset = result.next_begin_offset
    return found


def ext_codes(store, topic: str = "Orders") -> list[int]:
    queue = store._queues.find((topic, 0))
    return [code for file in queue.row.files for _, _, code in queue.units(file.start // 20, 10**6)]
