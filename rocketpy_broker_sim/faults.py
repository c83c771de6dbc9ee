"""Injected faults of brokers: sends that are refused, answered late, or not answered.

A fault wraps the processors for sends of one cluster's brokers, so it looks the same over every network and to clients
of every language. Processors are not wrapped before the first fault is requested.
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
    """A fault for the next sends."""

    effect: _Effect
    left: int
    """How many more sends it affects."""
    broker: int | None
    """The number of the broker; None for all of them together."""


class SendFaults:
    """The faults of sends to one cluster's brokers. Faults happen in the order in which they were requested."""

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self._brokers: dict[Broker, int] = {}

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse(self, times: int, code: int, broker: int | None) -> None:
        """Answer the next sends with a code, and do not store their messages."""
        self._add(partial(_refuse, int(code)), times, broker)

    def delay(self, times: int, seconds: float, broker: int | None, services: trio.Nursery) -> None:
        """Store and answer the next sends `seconds` later."""
        self._add(partial(_delay, seconds, services), times, broker)

    def lose_answers(self, times: int, broker: int | None) -> None:
        """Store the messages of the next sends, and do not answer."""
        self._add(_lose_answer, times, broker)

    def heal(self) -> None:
        """Cancel all faults that have not happened yet."""
        self._faults.clear()

    def _add(self, effect: _Effect, times: int, broker: int | None) -> None:
        self._faults.append(_Fault(effect, times, broker))

    # --- where it goes wrong ---------------------------------------------------------------------------

    def attach(self, broker: Broker, number: int) -> None:
        """Wrap the processors of a broker that has just been opened, or gets its first fault."""
        if broker in self._brokers:
            return
        # A restarted broker is another object: only the last one with each number is kept.
        self._brokers = {known: place for known, place in self._brokers.items() if place != number}
        self._brokers[broker] = number
        for code in _SENDS:
            broker.lanes.replace(code, partial(self._around, broker, number))

    @property
    def is_used(self) -> bool:
        """Whether the processors of any broker are wrapped."""
        return bool(self._brokers)

    def _around(self, broker: Broker, number: int, processor: Processor) -> Processor:
        def process(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            effect = self._take(number)
            return processor(connection, request) if effect is None else effect(broker, processor, connection, request)

        return process

    def _take(self, number: int) -> _Effect | None:
        """The fault for a send that has arrived at a broker, or None."""
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
    # Forgotten, so that a broker that stops meanwhile does not wait for it.
    connection.forget_request(request)
    services.start_soon(_carry_out_later, seconds, broker, processor, connection, request)


@trio.lowlevel.enable_ki_protection
async def _carry_out_later(
    seconds: float, broker: Broker, processor: Processor, connection: Connection, request: RemotingCommand
) -> None:
    await trio.sleep(seconds)
    if connection.is_open:
        connection.recall_request(request)
        broker.lanes.submit("send", processor, connection, request)
        broker.lanes.finish()
