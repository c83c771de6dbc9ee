"""A store of many gigabytes, made in seconds: whole consume queues, a log of holes, and a last file that is real.

Opening a store reads its queues' ends and its last file of the log; the files before that are only ever read for a
consumer, so nobody can tell that they are empty. Made by hand, because putting five million messages takes minutes.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from rocketpy.wire.record import encode_record

TOPIC = "BenchBig"
QUEUES = 16
UNIT = struct.Struct(">qiq")
UNITS_A_FILE = 300_000
CHUNK = 1_000
_PLACE = struct.Struct(">iiqq")  # queue, flag, queue offset, position: behind size, magic and checksum
_PLACE_AT = 12
_STORED = 1_700_000_000_000


@dataclass(frozen=True)
class BigStore:
    """How large it is.

    Attributes:
        messages: About so many; the last file is filled up.
        files: Of the log.
        file_size: Of each of them.
    """

    messages: int = 5_000_000
    files: int = 10
    file_size: int = 1 << 30

    @property
    def record_size(self) -> int:
        """Of each record."""
        return self.files * self.file_size // self.messages

    @property
    def a_file(self) -> int:
        """Records in each file, with some room at its end for the filler."""
        return (self.file_size - 4096) // self.record_size

    def position(self, number: int) -> int:
        """Where a message stands in the log."""
        file, index = divmod(number, self.a_file)
        return file * self.file_size + index * self.record_size


def build(place: Path, big: BigStore) -> None:
    """Make the store in a folder that is empty."""
    for number in range(big.files):
        path = place / "commitlog" / f"{number * big.file_size:020d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, big.file_size)
    _write_last_file(path, big)
    for queue in range(QUEUES):
        _write_queue(place / "consumequeue" / TOPIC / str(queue), queue, big)


def _write_last_file(path: Path, big: BigStore) -> None:
    """Fill it but for its last record's room, as a log is that goes on."""
    first, last = (big.files - 1) * big.a_file, big.files * big.a_file - 1
    size, template = big.record_size, _template(big.record_size)
    with path.open("r+b") as file:
        for begin in range(first, last, CHUNK):
            count = min(CHUNK, last - begin)
            chunk = bytearray(template * count)
            for index in range(count):
                offset, queue = divmod(begin + index, QUEUES)
                _PLACE.pack_into(chunk, index * size + _PLACE_AT, queue, 0, offset, big.position(begin + index))
            file.write(chunk)
        file.flush()
        os.fdatasync(file.fileno())


def _template(size: int) -> bytes:
    """A record of the wanted size, whose place is filled in later."""

    def record(body: bytes) -> bytes:
        return encode_record(
            topic=TOPIC.encode(),
            body=body,
            properties=b"",
            queue_id=0,
            flag=0,
            queue_offset=0,
            physical_offset=0,
            sys_flag=0,
            born_timestamp=_STORED,
            born_host=bytes(8),
            store_timestamp=_STORED,
            store_host=bytes(8),
            body_crc=zlib.crc32(body) & 0x7FFFFFFF,
        )

    return record(bytes(size - len(record(b""))))


def _write_queue(folder: Path, queue: int, big: BigStore) -> None:
    """Every unit of a queue."""
    folder.mkdir(parents=True)
    size = big.record_size
    numbers = range(queue, big.files * big.a_file - 1, QUEUES)
    for begin in range(0, len(numbers), UNITS_A_FILE):
        units = b"".join([UNIT.pack(big.position(n), size, 0) for n in numbers[begin : begin + UNITS_A_FILE]])
        path = folder / f"{begin * UNIT.size:020d}"
        path.write_bytes(units)
        os.truncate(path, UNITS_A_FILE * UNIT.size)
