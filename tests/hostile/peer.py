"""A connection as an attacker or an onlooker has it: plain sockets, nothing of ours that could be polite."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple, Self

from tests.hostile.frames import opaque_of


class Answer(NamedTuple):
    """One frame of the server, as far as tests look into it."""

    code: int
    opaque: int
    remark: str
    fields: dict[str, str]
    body: bytes
    is_request: bool

    def is_to(self, opaque: int) -> bool:
        """Whether it answers the request of that number; a server numbers its own requests, too."""
        return self.opaque == opaque and not self.is_request


class Closed(Exception):
    """The server has closed the connection."""


class Peer:
    """One connection."""

    def __init__(self, address: str, *, timeout: float = 30.0, receive_buffer: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_open = True
        self._file = self.socket.makefile("rb", buffering=256 * 1024)

    def send(self, data: bytes) -> None:
        """Send all, as far as the server wants it."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.is_open = False

    def read(self) -> Answer:
        """The next frame.

        Raises:
            Closed: there will be none.
        """
        try:
            lead = self._file.read(8)
            if len(lead) == 8:
                total, words = struct.unpack(">iI", lead)
                rest = self._file.read(total - 4)
                if len(rest) == total - 4:
                    return _answer(words >> 24, rest[: words & 0xFFFFFF], rest[words & 0xFFFFFF :])
        except ConnectionResetError:
            pass
        self.is_open = False
        raise Closed

    def ask(self, frame: bytes) -> Answer:
        """Send one request and return its answer; others that come before it are dropped."""
        self.send(frame)
        return self.wait_for(opaque_of(frame))

    def wait_for(self, opaque: int) -> Answer:
        while True:
            answer = self.read()
            if answer.is_to(opaque):
                return answer

    def attack(self, frames: Iterable[bytes], last: bytes) -> list[Answer]:
        """Send frames while reading what comes, until `last`, which is sent after them, is answered, or all is over."""
        writer = threading.Thread(target=self._send_all, args=(frames, last), daemon=True)
        writer.start()
        wanted, answers = opaque_of(last), []
        try:
            while not answers or not answers[-1].is_to(wanted):
                answers.append(self.read())
        except Closed:
            pass
        writer.join()
        return answers

    def _send_all(self, frames: Iterable[bytes], last: bytes) -> None:
        for frame in frames:
            if self.is_open:
                self.send(frame)
        self.send(last)

    def close(self) -> None:
        self.is_open = False
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _answer(kind: int, header: bytes, body: bytes) -> Answer:
    if kind == 0:
        read = json.loads(header)
        fields = read.get("extFields") or {}
        is_request = not read["flag"] & 1
        return Answer(read["code"], read["opaque"], read.get("remark") or "", fields, body, is_request)
    code, _language, _version, opaque, flag = struct.unpack_from(">hBhii", header)
    return Answer(code, opaque, "", {}, body, not flag & 1)


def ask_once(address: str, frame: bytes, *, timeout: float = 30.0) -> Answer:
    """One request on a connection of its own."""
    with Peer(address, timeout=timeout) as peer:
        return peer.ask(frame)


def wait_until(condition: object, seconds: float) -> bool:
    """Ask again and again, for so long."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
