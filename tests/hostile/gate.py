"""A gate between a client and its broker, through which an attacker speaks to the client as that broker.

All frames pass in both directions. Who connects to the side entrance has its frames put between those of the broker,
and gets what the client answers; the broker itself asks nothing of the client but what wants no answer.
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
        broker: Where the broker listens.

    Attributes:
        address: Where the client finds it.
        entrance: Where an attacker connects.
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
        """Let an attacker speak on the client's connection, as soon as it has one."""
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
        """Let frames through until one side ends, then let go of both."""
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
        """Answers are the attacker's, everything else is the broker's."""
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
        """Let an attacker in; what it sends goes through as it is. Nothing of the broker's comes into its frames."""
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
                self.close()  # in the middle of a frame: nothing that follows would be understood

    def close(self) -> None:
        """End all connections; those who use them let go of them."""
        self.closed = True
        for each in (self._client, self._broker, self._attacker):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _after(data: bytes, left: int, lead: bytes) -> tuple[int, bytes]:
    """Bytes of the last frame that are still to come, or the part of its length that is there.

    A length beyond the limit is never fulfilled: the client closes the connection.
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
    """Cuts what a socket receives into frames."""

    def __init__(self, link: socket.socket) -> None:
        self._file = link.makefile("rb", buffering=_CHUNK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.close()

    def next(self) -> bytes:
        """The next frame with its length; nothing at the end."""
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
