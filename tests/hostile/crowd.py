"""Many connections of one process: all of them are read all the time, by one thread."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from tests.hostile.peer import wait_until

SOURCE = "127.0.0.2"
"""Where a crowd comes from: the bound on connections of one host shall not keep the innocent out."""
_LISTEN_QUEUE = 100
_AT_ONCE = struct.pack("ii", 1, 0)
"""For `SO_LINGER`: closing drops what has not been sent, and resets the connection."""


class Member:
    """One connection of a crowd."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20, source_address=(SOURCE, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = 0
        self.requests = 0
        self.codes: set[int] = set()
        self.is_open = True
        self._buffer = bytearray()

    def take(self) -> None:
        """Read what is there and count its frames."""
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = self.socket.recv(256 * 1024)
        if not data:
            self.is_open = False
            return
        self._buffer += data
        while len(self._buffer) >= 8:
            total, words = struct.unpack_from(">iI", self._buffer)
            if len(self._buffer) < 4 + total:
                return
            header = json.loads(bytes(self._buffer[8 : 8 + (words & 0xFFFFFF)]))
            del self._buffer[: 4 + total]
            if header["flag"] & 1:
                self.answers += 1
                self.codes.add(header["code"])
            else:
                self.requests += 1


class Crowd:
    """So many connections to one server.

    Attributes:
        resets: Whether closing resets the connections, so that what the system has not sent yet is dropped.
    """

    def __init__(self, address: str, count: int) -> None:
        self.resets = False
        self._selector = selectors.DefaultSelector()
        self.members: list[Member] = []
        self._stop = threading.Event()
        for number in range(count):
            self.members.append(Member(address))
            if number % _LISTEN_QUEUE == 0:
                time.sleep(0.01)
        for member in self.members:
            self._selector.register(member.socket, selectors.EVENT_READ, member)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, make: Callable[[int], bytes]) -> None:
        """Every member sends the frame that belongs to its number."""
        for number, member in enumerate(self.members):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                member.socket.sendall(make(number))

    def all_answered(self, seconds: float, times: int = 1) -> bool:
        return wait_until(lambda: all(member.answers >= times for member in self.members), seconds)

    @property
    def codes(self) -> set[int]:
        return {code for member in self.members for code in member.codes}

    def open(self) -> Sequence[Member]:
        return [member for member in self.members if member.is_open]

    def _read(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.05):
                key.data.take()
                if not key.data.is_open:
                    self._selector.unregister(key.fileobj)

    def close(self) -> None:
        self._stop.set()
        self._reader.join()
        self._selector.close()
        for member in self.members:
            if self.resets:
                member.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            member.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
