"""Pulls that the thread which decodes makes itself, over a data connection: no other thread has to be woken for them.

They are sent before the answers to those before them are decoded, so the broker works at the same time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError, RocketMQError, rounded
from rocketpy.wire.frame import Frame

if TYPE_CHECKING:
    from rocketpy.client.api.pull import PullForm
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.routes.routing import BrokerAddress
    from rocketpy.remoting.data.call import Call
    from rocketpy.remoting.data.thread import ThreadConnection
    from rocketpy.results import PulledRecords

__all__ = ["PullsAhead"]

_MOST_AHEAD = 32
"""Pulls that are sent at once, at most."""
_BYTES_AHEAD = 512 * 1024
"""Bytes of the answers to pulls that are sent at once, about at most."""


def _connection_to(client: MQClientInstance, address: str) -> ThreadConnection | None:
    """The data connection to a broker, if there is one that this thread may use now; otherwise one is asked for."""
    found = cast("ThreadConnection | None", client.data_links.nowait(address))
    return None if found is None or found.is_mine else found


class DirectPull:
    """A pull that has been sent.

    Attributes:
        offset: where it pulls from.
    """

    __slots__ = ("_answer", "_call", "_connection", "_form", "_opaque", "_timeout", "_topic", "offset")

    def __init__(
        self,
        connection: ThreadConnection,
        form: PullForm,
        topic: str,
        offset: int,
        opaque: int,
        call: Call,
        timeout: float,
    ) -> None:
        self.offset = offset
        self._connection = connection
        self._form = form
        self._topic = topic
        self._opaque = opaque
        self._call = call
        self._timeout = timeout
        self._answer: Frame | RocketMQError | None = None

    def settle(self) -> None:
        """Wait for the answer and keep it, as before a time in which nobody would read it."""
        if self._answer is None:
            try:
                self._answer = self._wait()
            except RocketMQError as error:
                self._answer = error

    def result(self) -> PulledRecords | None:
        """Wait for the answer. None if the broker has not carried it out, because it asks to go away.

        Raises:
            RocketMQError: the broker does not answer, or refuses.
        """
        answer = self._wait() if self._answer is None else self._answer
        if isinstance(answer, RocketMQError):
            raise answer
        try:
            found = self._form.records(answer, self._connection.address)
        except RemoteProtocolError as error:
            self._connection.close(error)
            raise
        if found is None:
            self._connection.on_go_away()
        return found

    def forget(self) -> None:
        """Let nobody wait for the answer."""
        self._connection.give_up(self._opaque)

    def _wait(self) -> Frame:
        address = self._connection.address
        try:
            answer = self._connection.end(self._opaque, self._call)
        except RequestTimeoutError as exc:
            text = f"a pull of {self._topic}, allowed {rounded(self._timeout)} s: {exc}"
            raise RequestTimeoutError(text, address=address, timeout=self._timeout) from None
        if isinstance(answer, Frame):
            return answer
        raise RemoteProtocolError(f"{address} has answered a pull as it answers a send: {answer!r:.200}")


class PullsAhead:
    """The pulls of one queue that are under way, in the order of their offsets.

    Where the next answer will end is known only when it has come. But answers that are full move on by the same number
    of messages, so after some that did, several pulls are sent at once, each from where the one before it is expected
    to end: broker and reader wake up once for all of them. If one of them ends elsewhere, those behind it are of no
    use, and the next one is sent alone.

    Args:
        topic: the topic, for errors.
        flags: bits of `PullSysFlag`.
        timeout: seconds that an answer may take.
    """

    def __init__(self, topic: str, flags: int, timeout: float) -> None:
        self._topic = topic
        self._flags = flags
        self._timeout = timeout
        self._pulls: deque[DirectPull] = deque()
        self._broker: BrokerAddress | None = None
        self._step = 0
        self._alike = 0
        """Answers in a row that have moved on by `_step`."""

    def take(self) -> tuple[DirectPull, bool] | None:
        """The next pull, and whether the master answers it; None if none is under way."""
        if not self._pulls or self._broker is None:
            return None
        return self._pulls.popleft(), not self._broker.is_slave

    def note(self, step: int, position: int) -> None:
        """An answer has moved on by so many messages, to a position: only what pulls from there is of use."""
        self._alike = min(self._alike + 1, _MOST_AHEAD.bit_length() - 1) if step == self._step and step > 0 else 0
        self._step = step
        if self._pulls and self._pulls[0].offset != position:
            self.forget()

    def send(self, client: MQClientInstance, broker: BrokerAddress, form: PullForm, bounds: range, size: int) -> None:
        """Send what shall be under way, if there is a data connection.

        Args:
            client: whose connection is used.
            broker: where to pull.
            form: a pull but for its offset.
            bounds: the offsets that are left of the range; it is not empty.
            size: bytes of the last answer.
        """
        if self._broker != broker:
            self.forget()
            self._broker = broker
        first = self._pulls[-1].offset + self._step if self._pulls else bounds.start
        wanted = min(1 << self._alike, max(1, _BYTES_AHEAD // max(1, size)))
        if len(self._pulls) * 2 > wanted or first >= bounds.stop:
            return
        connection = _connection_to(client, broker.address)
        if connection is None:
            return
        offsets = [first] if wanted == 1 else range(first, bounds.stop, self._step)[:wanted]
        opaques = [connection.next_opaque() for _ in offsets]
        frames = [
            (opaque, form.frame(connection, opaque, offset, self._flags, 0))
            for opaque, offset in zip(opaques, offsets, strict=True)
        ]
        try:
            calls = connection.begin(frames, connection.clock() + self._timeout)
        except ConnectionLostError:
            return
        for offset, opaque, call in zip(offsets, opaques, calls, strict=True):
            self._pulls.append(DirectPull(connection, form, self._topic, offset, opaque, call, self._timeout))

    def settle(self) -> None:
        """Have all answers here before a time in which this thread does something else: no other one reads them."""
        for each in self._pulls:
            each.settle()

    def forget(self) -> None:
        """Do without the pulls that are under way, and send the next one alone."""
        self._alike = 0
        while self._pulls:
            self._pulls.popleft().forget()
