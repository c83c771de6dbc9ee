"""Hooks around requests: signing, namespaces, measuring.

A hook sees typed commands. On the client it runs around every request that a connection encodes itself; whoever sends
prebuilt frames asks `Connection.hooks` first. On a server the dispatcher runs it around each processor. Plays the part
of RPCHook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocketpy.wire.command import RemotingCommand

__all__ = ["RequestHook"]


class RequestHook(Protocol):
    """Two plain functions around a request. What they raise goes to the caller, on a server into the answer."""

    def before_request(self, address: str, command: RemotingCommand) -> None:
        """Look at a request before it is encoded or carried out, and change it where needed (a signature)."""
        ...

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        """Look at the answer to a request; None for one-way requests, and for those that a server parks."""
        ...
