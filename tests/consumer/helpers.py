"""Messages and queues for tests of the consumer."""

from __future__ import annotations

from typing import Any

from rocketpy.message import MessageExt, MessageQueue
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.record import encode_record

QUEUE = MessageQueue("Orders", "broker-a", 0)
_HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def record(
    offset: int,
    *,
    topic: str = "Orders",
    queue_id: int = 0,
    body: bytes = b"x" * 100,
    properties: dict[str, str] | None = None,
    reconsume_times: int = 0,
    sys_flag: int = 0,
) -> bytes:
    """A message as a broker stores it."""
    return encode_record(
        topic=topic.encode(),
        body=body,
        properties=encode_properties({"UNIQ_KEY": f"U{offset:06}", **(properties or {})}).encode(),
        queue_id=queue_id,
        flag=0,
        queue_offset=offset,
        physical_offset=10_000 + offset,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        born_host=_HOST,
        store_timestamp=1_700_000_000_001,
        store_host=_HOST,
        reconsume_times=reconsume_times,
    )


def stored(offset: int, *, broker_name: str = "broker-a", **fields: Any) -> MessageExt:
    """A message as a pull decodes it."""
    return decode_record(record(offset, **fields), broker_name=broker_name)


def stored_range(start: int, stop: int, **fields: Any) -> list[MessageExt]:
    return [stored(offset, **fields) for offset in range(start, stop)]


class Unspeakable(Exception):
    """Its repr and its str raise. Called as a function, it raises as usual."""

    def __call__(self, request: object) -> object:
        return 1 // 0

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def role_of(consumer: Any) -> Any:
    """The role of an open consumer, which its client knows."""
    return consumer.client.roles.consumers[consumer.config.group]
