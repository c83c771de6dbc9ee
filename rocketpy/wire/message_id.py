"""Ids of messages: the unique id that a producer gives, and the offset id that names broker and commit log position.

Both are upper-case hexadecimal of 32 characters, or 56 where the address is IPv6, so the length does not tell them
apart. Plays the part of MessageClientIDSetter and of the id half of MessageDecoder.
"""

from __future__ import annotations

import itertools
import struct
import time
from typing import NamedTuple

from rocketpy.errors import ConfigError
from rocketpy.seams import random_source, wall_ms
from rocketpy.wire.hosts import unpack_host

__all__ = [
    "OffsetMessageId",
    "UniqueId",
    "UniqueIds",
    "decode_offset_message_id",
    "decode_unique_id",
    "offset_message_id",
    "uniq_id_counter",
    "uniq_id_ip",
    "uniq_id_offset_in_month",
    "uniq_id_pid",
    "uniq_id_time",
]

_TAIL = 12
"""Bytes of a unique id after the address: pid 2, process 4, time 4, counter 2."""
_IDS_A_READING = 1024
"""Ids that are made from one reading of the clock."""
_CLOCK_STEP_BACK = 1_000_000
"""A clock set back by less than this many ms over the start of a month counts as the start of the month."""


class UniqueIds:
    """Makes the unique ids of one producer; `next` may be called from any thread.

    An id is address, process id, a number of this instance, milliseconds since the month began (local time), and a
    counter.
    """

    __slots__ = ("_counter", "_month_end", "_month_start", "_now", "_prefix", "_stamp")

    def __init__(self, ip: bytes, pid: int) -> None:
        if len(ip) not in (4, 16):
            raise ConfigError(f"an IP address takes 4 or 16 bytes, not {len(ip)}")
        instance = random_source().getrandbits(32)
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{instance:08X}"
        self._counter = itertools.count()
        self._month_start = self._month_end = 0
        self._stamp = (-1, "")

    def next(self) -> str:
        """A new id."""
        now, stamp = wall_ms(), self._stamp
        head = stamp[1] if stamp[0] == now else self._head(now)
        return f"{head}{next(self._counter) & 0xFFFF:04X}"

    def take(self, count: int) -> list[str]:
        """New ids, many at once."""
        ids: list[str] = []
        while len(ids) < count:
            # Read again now and then: one millisecond may have no more ids than the counter can number.
            head = self._head(wall_ms())
            numbers = itertools.islice(self._counter, min(_IDS_A_READING, count - len(ids)))
            low = [number & 0xFFFF for number in numbers]
            # All digits in one go: to format each number takes five times as long.
            digits = struct.pack(f">{len(low)}H", *low).hex(",", 2).upper()
            ids += (head + digits.replace(",", "," + head)).split(",")
        return ids

    def _head(self, now: int) -> str:
        """All of an id that is made now but the counter."""
        stamp = self._stamp
        if stamp[0] != now:
            # Replaced as a whole, so that another thread sees the old pair or the new one.
            stamp = self._stamp = (now, f"{self._prefix}{self._since_month_start(now):08X}")
        return stamp[1]

    def _since_month_start(self, now: int) -> int:
        if now >= self._month_end:
            self._month_start, self._month_end = _month_around(now)
        elapsed = now - self._month_start
        if -_CLOCK_STEP_BACK < elapsed < 0:
            return 0
        return elapsed & 0xFFFFFFFF


def _month_around(now: int) -> tuple[int, int]:
    """First millisecond of the local month of `now`, and of the month after it."""
    local = time.localtime(now / 1000)
    start = time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    end = time.mktime((local.tm_year, local.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(start) * 1000, int(end) * 1000


# --- reading a unique id -------------------------------------------------------------------------------


class UniqueId(NamedTuple):
    """What a unique id tells of the producer that made it.

    Attributes:
        ip: Address of its machine.
        pid: Its process, the low 16 bits.
        instance: A number of the producer within the process.
        time: When the id was made, ms since 1970, if that was within the last month and in our time zone.
        counter: Running number of the message, modulo 65,536.
    """

    ip: str
    pid: int
    instance: int
    time: int
    counter: int


def decode_unique_id(text: str, *, now: int | None = None) -> UniqueId:
    """Take the id apart that a producer gave a message.

    Args:
        text: The id.
        now: The time from which its month is told, ms; the present when None.

    Raises:
        ConfigError: this is no such id.
    """
    data = _unique_id_bytes(text)
    instance = int.from_bytes(data[-10:-6], "big")
    return UniqueId(uniq_id_ip(text), uniq_id_pid(text), instance, uniq_id_time(text, now=now), uniq_id_counter(text))


def uniq_id_ip(text: str) -> str:
    """The address of the producer."""
    data = _unique_id_bytes(text)
    return unpack_host(data[:-_TAIL] + bytes(4))[0]


def uniq_id_pid(text: str) -> int:
    """The process of the producer, its low 16 bits."""
    return int.from_bytes(_unique_id_bytes(text)[-12:-10], "big")


def uniq_id_offset_in_month(text: str) -> int:
    """Milliseconds from the start of the producer's local month to the making of the id."""
    return int.from_bytes(_unique_id_bytes(text)[-6:-2], "big")


def uniq_id_time(text: str, *, now: int | None = None) -> int:
    """When the id was made, ms since 1970, if that was within the last month and in our time zone."""
    latest = wall_ms() if now is None else now
    offset = uniq_id_offset_in_month(text)
    start = _month_around(latest)[0]
    if start + offset > latest:
        start = _month_around(start - 1)[0]
    return start + offset


def uniq_id_counter(text: str) -> int:
    """The running number, modulo 65,536."""
    return int.from_bytes(_unique_id_bytes(text)[-2:], "big")


def _unique_id_bytes(text: str) -> bytes:
    return _id_bytes(text, "a unique message id")


def _id_bytes(text: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise ConfigError(f"{text!r:.100} is not {what}: it is not text")
    if len(text) not in (32, 56) or not text.isascii():
        raise ConfigError(f"{text[:64]!r} is not {what}: it has 32 or 56 hexadecimal characters")
    try:
        data = bytes.fromhex(text)
    except ValueError as exc:
        raise ConfigError(f"{text!r} is not {what}: not all of it is hexadecimal") from exc
    if len(data) * 2 != len(text):
        raise ConfigError(f"{text!r} is not {what}: not all of it is hexadecimal")
    return data


# --- offset ids ------------------------------------------------------------------------------------------


def offset_message_id(host: bytes, offset: int) -> str:
    """The id of the message at a commit log offset of the broker at `host`, as `pack_host` made it."""
    return f"{host.hex().upper()}{offset & 0xFFFFFFFFFFFFFFFF:016X}"


class OffsetMessageId(NamedTuple):
    """Where a message stands.

    Attributes:
        ip: Address of the broker that stored it.
        port: Its port.
        offset: Where the record begins in the commit log.
    """

    ip: str
    port: int
    offset: int


def decode_offset_message_id(text: str) -> OffsetMessageId:
    """Take an id apart that a broker gave a message.

    Raises:
        ConfigError: this is no such id.
    """
    data = _id_bytes(text, "an offset message id")
    ip, port = unpack_host(data[:-8])
    return OffsetMessageId(ip, port, int.from_bytes(data[-8:], "big", signed=True))


def offset_of_message_id(text: str) -> int:
    """The offset in the commit log of an id that a broker gave a message.

    Raises:
        ConfigError: this is no such id.
    """
    return int.from_bytes(_id_bytes(text, "an offset message id")[-8:], "big", signed=True)
