"""The same stored messages, with their properties asked for."""

from __future__ import annotations

from benchmarks.clients.decode import decoding
from benchmarks.task import Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """A user who reads tags or keys pays for this."""
    return decoding(task, lambda messages: [message.wire_properties for message in messages])


SHAPE = Shape("decode-all", "stored messages decoded, properties taken apart", measure, alone=True)
