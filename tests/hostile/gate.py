"""A proxy between a client and its broker, through which an attacker talks to the client as if it were the broker.

All frames pass in both directions. Frames from a connection to the side entrance are inserted between those of the
broker, and that connection gets the client's answers. The broker itself sends the client only one-way requests.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from rocketpy.wire.codes import RESPONSE_FLAG
from tests.hostile.frames import MAX_FRAME

_CHUNK = 256 * 1024


class Gate:
    """The gate of one client.

    Args:
        broker: The address of the broker.

    Attributes:
        address: The address that the client connects to.
        entrance: The address that an attacker connects to.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._link: _Link | None = None
        self._changed = threading.Condition()
        self._open = True
        self._listeners = [_listen(self._take_client), _listen(self._take_attacker)]
        self.address, self.entrance = (f"127.0.0.1:{each.getsockname()[1]}" for each in self._listeners)

    def _take_client(self, client: socket.socket) -> None:
        host, _, port = self._broker.rpartition(":")
        link = _Link(client, socket.create_connection((host, int(port))))
        with self._changed:
            self._link = link
            self._changed.notify_all()
        link.run()

    def _take_attacker(self, attacker: socket.socket) -> None:
        """Attach an attacker to the client's connection, as soon as there is one."""
        with self._changed:
            while self._open and (self._link is None or self._link.closed):
                self._changed.wait(0.1)
            link = self._link
        if link is not None:
            link.admit(attacker)
        attacker.close()

    def close(self) -> None:
        self._open = False
        for each in self._listeners:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        if self._link is not None:
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class _Link:
    """One connection of the client, and the attacker on it."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self._client, self._broker = client, broker
        self._attacker: socket.socket | None = None
        self._to_client = threading.Lock()
        """Held from the first byte of a frame to its last one."""
        self.closed = False

    def run(self) -> None:
        """Pass frames on until one side ends, then close both."""
        down = threading.Thread(target=self._pump_down, daemon=True)
        down.start()
        self._pump_up()
        down.join()
        self._client.close()
        self._broker.close()

    def _pump_down(self) -> None:
        with _Frames(self._broker) as frames, contextlib.suppress(OSError):
            while frame := frames.next():
                with self._to_client:
                    self._client.sendall(frame)
        self.close()

    def _pump_up(self) -> None:
        """Pass the client's answers to the attacker, and everything else to the broker."""
        with _Frames(self._client) as frames, contextlib.suppress(OSError):
            while frame := frames.next():
                if _is_answer(frame):
                    self._give(frame)
                else:
                    self._broker.sendall(frame)
        self.close()

    def _give(self, frame: bytes) -> None:
        attacker = self._attacker
        if attacker is not None:
            with contextlib.suppress(OSError):
                attacker.sendall(frame)

    def admit(self, attacker: socket.socket) -> None:
        """Pass on what an attacker sends, unchanged. None of the broker's frames is inserted into the attacker's."""
        self._attacker = attacker
        left, lead, held = 0, b"", False
        try:
            while not self.closed and (data := attacker.recv(_CHUNK)):
                if not held:
                    self._to_client.acquire()
                    held = True
                self._client.sendall(data)
                left, lead = _after(data, left, lead)
                if not left and not lead:
                    self._to_client.release()
                    held = False
        except OSError:
            pass
        finally:
            if held:
                self._to_client.release()
                self.close()  # in the middle of a frame: the client could not decode anything that follows

    def close(self) -> None:
        """End all connections; the threads that use them release them."""
        self.closed = True
        for each in (self._client, self._broker, self._attacker):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _after(data: bytes, left: int, lead: bytes) -> tuple[int, bytes]:
    """The number of bytes of the last frame that are missing, or the part of its length field that has arrived.

    A frame with a length beyond the limit is never completed: the client closes the connection.
    """
    position = 0
    while True:
        if left:
            taken = min(left, len(data) - position)
            left, position = left - taken, position + taken
            if left:
                return left, b""
        taken = min(4 - len(lead), len(data) - position)
        lead, position = lead + data[position : position + taken], position + taken
        if len(lead) < 4:
            return 0, lead
        total = int.from_bytes(lead, "big", signed=True)
        left, lead = (total, b"") if 0 < total <= MAX_FRAME else (2**62, b"")


class _Frames:
    """Splits what a socket receives into frames."""

    def __init__(self, link: socket.socket) -> None:
        self._file = link.makefile("rb", buffering=_CHUNK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def next(self) -> bytes:
        """The next frame with its length field; empty at the end."""
        lead = self._file.read(4)
        if len(lead) < 4:
            return b""
        size = int.from_bytes(lead, "big")
        body = self._file.read(size)
        return lead + body if len(body) == size else b""


def _is_answer(frame: bytes) -> bool:
    words = int.from_bytes(frame[4:8], "big")
    header = frame[8 : 8 + (words & 0xFFFFFF)]
    if words >> 24:
        return bool(struct.unpack_from(">i", header, 9)[0] & RESPONSE_FLAG)
    at = header.rfind(b'"flag":')
    return bool(int(header[at + 7 : header.index(b",", at)]) & RESPONSE_FLAG)


def _listen(take: Callable[[socket.socket], None]) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=take, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener
