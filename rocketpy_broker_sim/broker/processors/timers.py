"""How far the timer is, and how many messages wait: GET_TIMER_CHECK_POINT and GET_TIMER_METRICS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import TimerView

__all__ = ["get_timer_checkpoint", "get_timer_metrics"]

_OFF = "there is no timer here (timerWheelEnable=false)"


def get_timer_checkpoint(broker: TimerView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """What the disk knows of how far the timer is."""
    if not broker.is_on:
        return request.answer(ResponseCode.SYSTEM_ERROR, _OFF)
    return request.answer(body=broker.timers.checkpoint.encode())


def get_timer_metrics(broker: TimerView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """How many messages wait, by topic."""
    if not broker.is_on:
        return request.answer(ResponseCode.SYSTEM_ERROR, _OFF)
    return request.answer(body=broker.metrics.as_body().encode())
