"""What tests of `send_many` share: brokers that hold their answers back or refuse a message, and messages."""

from __future__ import annotations

from trio.testing import wait_all_tasks_blocked

from rocketpy.message import Message
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.serialize import encode_command
from tests.producer.brokers import SendBroker

__all__ = ["BUSY", "ILLEGAL", "Picky", "Slow", "Storing", "bodies", "numbered"]

BUSY, ILLEGAL = ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.MESSAGE_ILLEGAL


class Slow(SendBroker):
    """Answers when it is told to, `release`; the largest numbers of what was due at a time are noted."""

    def __init__(self, script=()):
        super().__init__(script=script)
        self.due = []
        self.most = self.most_messages = 0
        self.connected = False

    def send(self, connection, request):
        answer = super().send(connection, request)
        if not self.connected:  # so that the frames after it go out in their order
            self.connected = True
            return answer
        self.due.append((connection, answer, bodies(self.taken[-1])))
        self.most = max(self.most, len(self.due))
        self.most_messages = max(self.most_messages, sum(len(held) for _, _, held in self.due))
        return None

    def release(self, number=0):
        """Answer one of the requests that are due, and give what it held."""
        connection, answer, held = self.due.pop(number)
        connection.send_frame(encode_command(answer))
        return held

    async def release_all(self):
        """Answer one after the other until nothing comes any more."""
        await wait_all_tasks_blocked()
        while self.due:
            self.release()
            await wait_all_tasks_blocked()


class Picky(SendBroker):
    """Refuses the body "13", alone and in a frame."""

    def send(self, connection, request):
        if request.body == b"13" or b"\x00\x00\x00\x0213" in request.body:
            self.script.insert(0, ILLEGAL)
        return super().send(connection, request)


class Storing(SendBroker):
    """Notes what it stores: the bodies of what it did not refuse."""

    def __init__(self, name, script):
        super().__init__(name, script)
        self.stored = []

    def send(self, connection, request):
        is_stored = not self.script or self.script[0] in {ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT}
        answer = super().send(connection, request)
        if is_stored:
            self.stored += bodies(self.taken[-1])
        return answer


def bodies(taken):
    """What a frame held."""
    return [item.body for item in decode_batch(taken.body)] if taken.header.batch else [taken.body]


def numbered(count, **fields):
    return (Message("T", b"%d" % number, keys=[f"k{number}"], **fields) for number in range(count))
