"""Faults of brokers as their clients see them: sends that are refused, answered late, or never answered.

They are carried out in front of the processors of one cluster's brokers, so they look the same over every network and
to clients of every language. Nothing stands in the way of a broker before the first fault is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.broker import Broker

__all__ = ["SendFaults"]

_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)

_Effect = Callable[["Broker", "Processor", "Connection", "RemotingCommand"], "RemotingCommand | None"]


@attrs.define(eq=False)
class _Fault:
    """What happens to the next sends."""

    effect: _Effect
    left: int
    """To how many more."""
    broker: int | None
    """At which broker; None for all of them together."""


class SendFaults:
    """The faults of the sends to one cluster's brokers. A fault that was asked for first strikes first."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self._brokers: dict[Broker, int] = {}

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse(self, times: int, code: int, broker: int | None) -> None:
        """Answer sends with a code, and do not store the message."""
        self._add(partial(_refuse, int(code)), times, broker)

    def delay(self, times: int, seconds: float, broker: int | None, services: trio.Nursery) -> None:
        """Carry sends out, and answer them, that much later."""
        self._add(partial(_delay, seconds, services), times, broker)

    def lose_answers(self, times: int, broker: int | None) -> None:
        """Store the message and never say so."""
        self._add(_lose_answer, times, broker)

    def heal(self) -> None:
        """Let no more sends go wrong."""
        self._faults.clear()

    def _add(self, effect: _Effect, times: int, broker: int | None) -> None:
        self._faults.append(_Fault(effect, times, broker))

    # --- where it goes wrong ---------------------------------------------------------------------------

    def attach(self, broker: Broker, number: int) -> None:
        """Stand in front of a broker that has just been opened, or is to have its first fault."""
        if broker in self._brokers:
            return
        # Brokers that were restarted are other objects: of each number only the last one counts.
        self._brokers = {known: place for known, place in self._brokers.items() if place != number}
        self._brokers[broker] = number
        for code in _SENDS:
            broker.lanes.replace(code, partial(self._around, broker, number))

    @property
    def is_used(self) -> bool:
        """Whether it stands in front of brokers."""
        return bool(self._brokers)

    def _around(self, broker: Broker, number: int, processor: Processor) -> Processor:
        def process(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            effect = self._take(number)
            return processor(connection, request) if effect is None else effect(broker, processor, connection, request)

        return process

    def _take(self, number: int) -> _Effect | None:
        """What happens to a send that has come to a broker."""
        for fault in self._faults:
            if fault.broker in (None, number):
                fault.left -= 1
                if not fault.left:
                    self._faults.remove(fault)
                return fault.effect
        return None


def _refuse(
    code: int, broker: Broker, processor: Processor, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    try:
        name = ResponseCode(code).name
    except ValueError:
        name = str(code)
    return request.answer(code, f"the test asked {broker.config.broker_name} to refuse this send: {name}")


def _lose_answer(
    broker: Broker, processor: Processor, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    if processor(connection, request) is not None:
        connection.forget_request(request)
    return None


def _delay(
    seconds: float,
    services: trio.Nursery,
    broker: Broker,
    processor: Processor,
    connection: Connection,
    request: RemotingCommand,
) -> None:
    # A broker that is stopped meanwhile waits for nobody.
    connection.forget_request(request)
    services.start_soon(_carry_out_later, seconds, broker, processor, connection, request)


async def _carry_out_later(
    seconds: float, broker: Broker, processor: Processor, connection: Connection, request: RemotingCommand
) -> None:
    await trio.sleep(seconds)
    if connection.is_open:
        connection.recall_request(request)
        broker.lanes.submit("send", processor, connection, request)
        broker.storing.turn.finish()
