"""Send values instead of bytes: `python -m examples.values [NAMESRV TOPIC]`.

One producer writes msgpack, another one bytes by a serializer of its own; the consumer reads both by their content
types. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import struct
import sys
import threading
from typing import Any

import attrs

from examples.servers import servers
from rocketpy.sync import Message, MessageExt, Producer, PushConsumer


@attrs.frozen
class Reading:  # what a sensor says
    sensor: int
    celsius: float


class Packed:
    """A serializer: eight bytes for each reading."""

    name, content_type = "packed readings", "application/x-reading"

    def encode(self, value: Any) -> bytes:
        return struct.pack(">if", value.sensor, value.celsius)

    def decode(self, body: bytes) -> Reading:
        return Reading(*struct.unpack(">if", body))


def main() -> None:
    """Send a reading in both forms, and read both."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Readings"
        shown = threading.Semaphore(0)

        def show(message: MessageExt) -> None:
            print(f"{len(message.body)} bytes: {message.value}")
            shown.release()

        for serializer in ("msgpack", Packed()):
            with Producer("sensors", namesrv=namesrv, serializer=serializer) as producer:
                producer.create_topic(topic, queues=1)
                producer.send(Message(topic, value=Reading(7, 21.5)))
        with PushConsumer("display", namesrv=namesrv, serializers=Packed()) as consumer:
            consumer.subscribe(topic, show)
            for _ in range(2):
                shown.acquire(timeout=10)


if __name__ == "__main__":
    main()
