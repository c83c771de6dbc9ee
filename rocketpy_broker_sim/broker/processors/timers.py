"""The progress of the timer and its counts: GET_TIMER_CHECK_POINT and GET_TIMER_METRICS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.serving.encoding import encode_steps

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import TimerView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["get_timer_checkpoint", "get_timer_metrics"]

_OFF = "there is no timer here (timerWheelEnable=false)"


def get_timer_checkpoint(broker: TimerView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Return the timer's checkpoint, as it is on the disk."""
    if not broker.is_on:
        return request.answer(ResponseCode.SYSTEM_ERROR, _OFF)
    return request.answer(body=broker.timers.checkpoint.encode())


def get_timer_metrics(broker: TimerView, connection: Connection, request: RemotingCommand) -> Steps:
    """Return the number of waiting messages by topic. A sliced processor."""
    if not broker.is_on:
        return request.answer(ResponseCode.SYSTEM_ERROR, _OFF)
    counts = yield from broker.metrics.body_steps()
    return request.answer(body=(yield from encode_steps(counts)))
