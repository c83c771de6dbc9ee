"""A broker that takes messages as told, and a client's world around it."""

from __future__ import annotations

import threading

import attrs

from rocketpy.errors import ConnectionLostError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.send import SendMessageRequestHeader, SendMessageResponseHeader
from rocketpy.wire.properties import decode_properties
from tests.client.fakes import FakeBroker, FakeNameServer, route_to

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


@attrs.frozen
class Taken:
    """A message as the broker got it."""

    header: SendMessageRequestHeader
    body: bytes
    oneway: bool

    @property
    def properties(self):
        return decode_properties(self.header.properties)


class SendBroker(FakeBroker):
    """Answers sends with the codes of `script`, one each, then with success.

    A script entry may be a code, "silence" (no answer) or "hang up" (the connection ends).
    """

    def __init__(self, name="broker-a", script=()):
        super().__init__(name)
        self.script = list(script)
        self.taken = []
        self.silent = threading.Event()
        """It has taken what it will not answer."""
        for code in SENDS:
            self.on(code, self.send)

    def send(self, connection, request):
        header = SendMessageRequestHeader.from_short_ext(request.ext_fields)
        self.taken.append(Taken(header, request.body, request.is_oneway))
        step = self.script.pop(0) if self.script else ResponseCode.SUCCESS
        if step == "silence":
            self.silent.set()
            return None
        if step == "hang up":
            connection.close(ConnectionLostError("as told"))
            return None
        offset = len(self.taken) - 1
        answer = SendMessageResponseHeader(
            msg_id=f"{offset:032X}", queue_id=header.queue_id, queue_offset=offset, transaction_id="t"
        )
        ext = answer.to_ext() | {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        stored = step in (0, 10, 11, 12)
        return request.answer(step, None if stored else f"code {step}", ext if stored else None)


class World:
    """A network with a name server; brokers join with `open`."""

    def __init__(self):
        self.network = MemoryNetwork()
        self.name_server = FakeNameServer()

    def route(self, topic, *brokers, **shape):
        self.name_server.routes[topic] = route_to(*brokers, **shape)
