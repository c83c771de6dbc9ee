"""What the parts of a connection share: its peer, the bytes in both directions, the requests that wait, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.remoting.in_flight import InFlight

if TYPE_CHECKING:
    from rocketpy.errors import RocketMQError
    from rocketpy.remoting.limits import ConnectionLimits
    from rocketpy.remoting.timers import Alarm
    from rocketpy.remoting.transport import Transport

__all__ = ["Link"]


class Link:
    """The state of one connection. Only the connection itself changes `error` and `retired`.

    Attributes:
        address: The peer as "host:port"; on a client the address that was dialled.
        transport: The bytes.
        alarm: Rings when a deadline of the connection is due.
        limits: The bounds on the connection.
        in_flight: Requests of ours that wait for answers.
        error: Why the connection ended, None while it is open.
        retired: Whether it takes no requests any more and closes when those that wait are answered.
    """

    __slots__ = ("address", "alarm", "error", "in_flight", "limits", "retired", "transport")

    def __init__(self, address: str, transport: Transport, alarm: Alarm, limits: ConnectionLimits) -> None:
        self.address = address
        self.transport = transport
        self.alarm = alarm
        self.limits = limits
        self.in_flight = InFlight(limits.max_in_flight)
        self.error: RocketMQError | None = None
        self.retired = False
