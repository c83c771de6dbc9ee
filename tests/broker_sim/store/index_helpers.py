"""What the tests of the key index share: messages with keys, and what is found by them."""

from __future__ import annotations

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import message

FOREVER = (0, 1 << 62)
ROLLBACK = 0xC


def keyed(number: int, *keys: str, topic: str = "Orders", **fields):
    text = f"KEYS\x01{' '.join(keys)}\x02" if keys else ""
    return message(b"body %d" % number, topic=topic, properties=f"{text}UNIQ_KEY\x01{number:032X}\x02", **fields)


def found(store, key: str, *, topic: str = "Orders", most: int = 64, span: tuple[int, int] = FOREVER) -> list[int]:
    return sorted(store.index.find(topic, key, most, *span).positions)


def images(storage: MemoryStorage) -> list[bytes]:
    return [storage.read_bytes(f"index/{name}") for name in storage.list("index")]


def all_found(store, count: int) -> bool:
    return all(len(found(store, f"{n:032X}")) == 1 and len(found(store, f"k{n}")) == 1 for n in range(count))
