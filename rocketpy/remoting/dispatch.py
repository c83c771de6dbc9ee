"""From a request code to the processor that carries it out, and from what it raises to an answer.

Processors are plain functions. One that cannot answer yet returns None and answers later through
``connection.send_answer`` (or says that it never will, with ``connection.forget_request``). Whatever a processor
raises becomes an answer: no request can end a connection or a server. Plays the part of processRequestCommand in
NettyRemotingAbstract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rocketpy.remoting.answers import answer_for_error
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.hooks import RequestHook

__all__ = ["Processor", "RequestDispatcher"]

Processor = Callable[["Connection", RemotingCommand], RemotingCommand | None]


class RequestDispatcher:
    """A Handler that knows a processor for each request code."""

    LOOK_AFTER: ClassVar = 16
    """How many requests are processed between two looks at the clock."""

    def __init__(
        self,
        processors: Mapping[int, Processor],
        default: Processor | None = None,
        *,
        hooks: Sequence[RequestHook] = (),
    ) -> None:
        self.processors = dict(processors)
        self.default = default or _refuse
        self.hooks = tuple(hooks)

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        """Carry out requests in order, as long as the peer reads the answers and the turn has time."""
        look_after = self.LOOK_AFTER if len(requests) > 1 and connection.has_time() else 1
        for taken, request in enumerate(requests):
            if taken and not (connection.has_room() and (taken % look_after or connection.has_time())):
                return taken
            answer = self.process(connection, request)
            if answer is not None:
                connection.send_answer(request, answer)
        return None

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Carry out one request; what is raised becomes the answer."""
        try:
            for hook in self.hooks:
                hook.before_request(connection.address, request)
            answer = self.processors.get(request.code, self.default)(connection, request)
            for hook in self.hooks:
                hook.after_answer(connection.address, request, answer)
        except Exception as exc:  # noqa: BLE001  whatever it is, it is the answer to this request alone
            return answer_for_error(request, exc, connection.address)
        return answer


def _refuse(_: Connection, request: RemotingCommand) -> RemotingCommand:
    return request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")
