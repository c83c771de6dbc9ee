"""Every request code that servers and clients answer, read from their code, so that a new one is attacked too."""

from __future__ import annotations

from typing import NamedTuple

from rocketpy.client.instance import MQClientInstance
from rocketpy.wire.codes import RequestCode
from rocketpy_broker_sim.broker import router
from rocketpy_broker_sim.namesrv import processor


class Routed(NamedTuple):
    """A code at one of the servers, or at a client."""

    role: str
    code: RequestCode

    def __str__(self) -> str:
        return f"{self.role}-{self.code.name}"


NOT_SUPPORTED = Routed("broker", RequestCode.POP_MESSAGE)
"""Stands for all codes without a route."""
UNKNOWN_TO_CLIENTS = RequestCode.SEND_MESSAGE
"""Represents all codes that clients do not answer."""


def routed() -> list[Routed]:
    """All of them, by role and number."""
    tables = {"broker": {*router._TABLE, *router._SENDS}, "namesrv": set(processor._TABLE), "client": of_clients()}
    return [Routed(role, code) for role, table in tables.items() for code in sorted(table)]


def of_clients() -> set[RequestCode]:
    """The codes that a client answers, and one that it does not."""
    made = MQClientInstance(namesrv="127.0.0.1:1").callbacks
    return {RequestCode(code) for code in (*made.processors, *made.async_processors)} | {UNKNOWN_TO_CLIENTS}
