"""Makes the data connections of a client for blocking code: one that threads share."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.client.peer_requests import PeerRequests
from rocketpy.remoting.data.thread import ThreadConnection

if TYPE_CHECKING:
    from rocketpy.client.data_links import DataConnection
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.portal import Portal

__all__ = ["attach_threads"]


def attach_threads(client: MQClientInstance, home: Portal) -> None:
    """Have data connections for threads made from now on, where the system can do what they need.

    Args:
        client: whose connections they are.
        home: the portal in which it runs.
    """

    def make(connection: socket.socket, address: str, stands: Callable[[DataConnection], object]) -> None:
        """In the portal: make a data connection of a socket, and pass it to `stands`."""

        def answer(frame: bytes) -> None:
            made.send_answer(frame)

        pool = client.pool
        made = ThreadConnection(
            connection,
            address,
            limits=pool.limits,
            serialize_type=pool.serialize_type,
            hooks=pool.hooks,
            clock=trio.lowlevel.current_clock().current_time,
            on_requests=PeerRequests(address, client.callbacks, post=home.post, deliver=answer).take,
        )
        stands(made)

    if hasattr(socket, "MSG_DONTWAIT") and hasattr(socket, "SO_RCVTIMEO"):
        client.data_links.attach(make, home.post)
