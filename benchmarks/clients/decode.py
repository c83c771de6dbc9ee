"""Stored messages of 128 B as a pull answer brings them, decoded: every length and CRC checked, text taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, Outcome, Shape, Task
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.record import encode_record

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

AT_ONCE = 32
"""Messages in one answer, as consumers ask for them."""
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
PROPERTIES = b"UNIQ_KEY\x017F00000100002A139A550000000000%02X\x02CLUSTER\x01DefaultCluster\x02WAIT\x01true\x02"


def answer() -> bytes:
    """The body of one pull answer."""
    return b"".join(
        encode_record(
            topic=b"BenchDecoded",
            body=BODY,
            properties=PROPERTIES % number,
            queue_id=number % 4,
            flag=0,
            queue_offset=number,
            physical_offset=number * 300,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            born_host=HOST,
            store_timestamp=1_700_000_000_001,
            store_host=HOST,
        )
        for number in range(AT_ONCE)
    )


def decoding(task: Task, use: Callable[[Iterable[MessageExt]], object]) -> Outcome:
    """Decode the same answer again and again."""
    data = answer()
    for _ in range(10):
        use(decode_messages(data))
    tickets, meter = Tickets(task.budget), Meter()
    meter.start()
    while tickets.take_up_to(AT_ONCE):
        use(decode_messages(data))
    meter.stop()
    return Outcome.rate(tickets.given, meter)


def measure(task: Task) -> Outcome:
    """As far as the decoder goes by itself; properties are taken apart when they are asked for."""
    return decoding(task, lambda messages: None)


SHAPE = Shape("decode", "stored messages decoded", measure, alone=True)
