"""Hooks around requests: signing, namespaces, measuring.

A hook sees typed commands. On the client it runs around every request that a connection encodes itself; code that
sends prebuilt frames asks `Connection.hooks` first. On a server the dispatcher runs it around each processor. Plays the
part of RPCHook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rocketpy.errors import LocalProtocolError
from rocketpy.forked import ChildEnds
from rocketpy.services import is_from_outside, is_in_service

if TYPE_CHECKING:
    from rocketpy.wire.command import RemotingCommand

__all__ = ["RequestHook", "hook_after", "hook_before"]


class RequestHook(Protocol):
    """Two plain functions around a request.

    What they raise goes to the caller, on a server into the answer. In the background, and in functions that are called
    there, the request fails with a LocalProtocolError instead: that of a heartbeat is logged, and the client goes on.
    """

    def before_request(self, address: str, command: RemotingCommand) -> None:
        """Look at a request before it is encoded or carried out, and change it where needed (a signature)."""
        ...

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        """Look at the answer to a request; None for one-way requests, and for those that a server parks."""
        ...


def hook_before(hooks: Iterable[RequestHook], address: str, command: RemotingCommand) -> None:
    """Call the hooks of a client before a request is encoded. Raises what they raise."""
    with _failing_requests(address, command):
        for hook in hooks:
            hook.before_request(address, command)


def hook_after(
    hooks: Iterable[RequestHook], address: str, command: RemotingCommand, answer: RemotingCommand | None
) -> None:
    """Call the hooks of a client after an answer, None for a one-way request. Raises what they raise."""
    with _failing_requests(address, command):
        for hook in hooks:
            hook.after_answer(address, command, answer)


@contextmanager
def _failing_requests(address: str, command: RemotingCommand) -> Iterator[None]:
    """In a service, have an exception of a hook fail the request, and not the service."""
    try:
        with ChildEnds():
            yield
    except BaseException as error:
        if is_from_outside(error) or not is_in_service():
            raise
        text = f"a request hook failed for request type {command.code} to {address}: {error!r}"
        raise LocalProtocolError(text) from error
