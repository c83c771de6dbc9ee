"""Every request code that a server answers, asked of the servers themselves: a new one is attacked from then on."""

from __future__ import annotations

from typing import NamedTuple

from rocketpy.wire.codes import RequestCode
from rocketpy_broker_sim.broker import router
from rocketpy_broker_sim.namesrv import processor


class Routed(NamedTuple):
    """A code at one of the servers."""

    role: str
    code: RequestCode

    def __str__(self) -> str:
        return f"{self.role}-{self.code.name}"


NOT_SUPPORTED = Routed("broker", RequestCode.POP_MESSAGE)
"""Stands for all codes without a route."""


def routed() -> list[Routed]:
    """All of them, by server and number."""
    tables = {"broker": {*router._TABLE, *router._SENDS}, "namesrv": set(processor._TABLE)}
    return [Routed(role, code) for role, table in tables.items() for code in sorted(table)]
