"""How the bytes of a pull get to the socket: copied out of a mapping and sent, sent from the mapping, or by sendfile.

Thirty-two records of 1 KiB that lie side by side, and the same number far apart, as those of one of 64 topics do. A
second thread drains the connection. An experiment: the broker does what won.
"""

from __future__ import annotations

import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bars import ALONE
from benchmarks.measure import Row
from benchmarks.store.measure import Bench, Sample, StoreMeasure, directory
from benchmarks.task import Outcome

RECORD = 1178
RECORDS = 32
APART = 64
Ranges = Sequence[tuple[int, int]]

_WAYS = {"copy": "copied and sent", "views": "sendmsg of views", "sendfile": "sendfile"}
_LAYOUTS = {"run": "32 records side by side", "apart": "32 records far apart"}
ROWS = tuple(
    Row(f"store-transfer-{layout}-{way}", f"{where}: {how}", "/s", f"store-transfer-{layout}-copy", "store")
    for layout, where in _LAYOUTS.items()
    for way, how in _WAYS.items()
)


def take(bench: Bench) -> Iterator[Sample]:
    """Every way with both layouts: messages a second of CPU of both ends together."""
    count = max(1, bench.scale.records // RECORDS)
    layouts = {"run": [(0, RECORDS * RECORD)], "apart": [(n * APART * RECORD, RECORD) for n in range(RECORDS)]}
    with directory() as place:
        path = place / "log"
        path.write_bytes(bytes(RECORDS * APART * RECORD))
        for layout, ranges in layouts.items():
            for way in _WAYS:
                yield f"store-transfer-{layout}-{way}", ALONE, _measured(path, way, ranges, count)


def _measured(path: Path, way: str, ranges: Ranges, count: int) -> Outcome:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping, _drained() as sink:
        step = {"copy": _copy, "views": _views, "sendfile": _sendfile}[way](file.fileno(), mapping, sink, ranges)
        step()
        used, began = time.process_time(), time.perf_counter()
        for _ in range(count):
            step()
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
    messages = count * RECORDS
    return Outcome(messages / seconds, messages, cpu * 100_000 / messages)


def _copy(descriptor: int, mapping: mmap.mmap, sink: socket.socket, ranges: Ranges) -> Callable[[], None]:
    def step() -> None:
        sink.sendall(b"".join([mapping[begin : begin + size] for begin, size in ranges]))

    return step


def _views(descriptor: int, mapping: mmap.mmap, sink: socket.socket, ranges: Ranges) -> Callable[[], None]:
    def step() -> None:
        with memoryview(mapping) as whole:
            views = [whole[begin : begin + size] for begin, size in ranges]
            sent, total = sink.sendmsg(views), sum(map(len, views))
            if sent < total:
                sink.sendall(b"".join(views)[sent:])
            for view in views:
                view.release()

    return step


def _sendfile(descriptor: int, mapping: mmap.mmap, sink: socket.socket, ranges: Ranges) -> Callable[[], None]:
    out = sink.fileno()

    def step() -> None:
        for begin, size in ranges:
            done = 0
            while done < size:
                done += os.sendfile(out, descriptor, begin + done, size - done)

    return step


@contextmanager
def _drained() -> Iterator[socket.socket]:
    """A connection over the loopback whose other end is read by a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = socket.create_connection(server.getsockname())
        sink, _ = server.accept()
    reader = threading.Thread(target=_drain, args=(source,))
    reader.start()
    try:
        yield sink
    finally:
        sink.close()
        reader.join()
        source.close()


def _drain(source: socket.socket) -> None:
    buffer = bytearray(1 << 18)
    while source.recv_into(buffer):
        pass


MEASURE = StoreMeasure("store-transfer", ROWS, take)
