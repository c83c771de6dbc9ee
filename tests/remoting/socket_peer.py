"""The broker's end of a socket that a data connection has, driven by hand or by a thread that answers everything."""

from __future__ import annotations

import socket
import threading

from rocketpy.wire.codes import SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command, encode_command

PATIENCE = 60.0
"""Seconds for what should come at once: thousands of answers in turn take many on a slow machine."""


def request_frame(opaque, body=b"x", code=310):
    command = RemotingCommand(code, {}, body, opaque)
    command.serialize_type = SerializeType.JSON
    return encode_command(command)


class Peer:
    """Reads requests, and answers when it is told."""

    def __init__(self):
        self.ours, self.socket = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self._decoder = FrameDecoder()
        self._ready = []

    def read(self, count=1):
        """The next requests."""
        while len(self._ready) < count:
            data = self.socket.recv(1 << 20)
            assert data, "the connection was closed"
            self._decoder.receive_data(data)
            self._ready += [decode_command(frame) for frame in self._decoder.frames()]
        taken, self._ready = self._ready[:count], self._ready[count:]
        return taken

    def answer(self, *requests):
        """Answer in one write."""
        self.socket.sendall(b"".join(encode_command(each.answer(0, None, {}, each.body)) for each in requests))

    def answer_all(self):
        """A thread that answers everything until the connection is closed."""

        def serve():
            try:
                while True:
                    self.answer(*self.read())
            except (AssertionError, OSError):
                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return thread

    def close(self):
        self.socket.close()


class Clock:
    """Seconds that pass when a test says so, on top of real ones."""

    def __init__(self):
        import time

        self._time = time.monotonic
        self.ahead = 0.0

    def __call__(self):
        return self._time() + self.ahead
