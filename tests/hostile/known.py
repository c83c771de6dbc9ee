"""Attacks that do not hold yet, by server and code: the page of hostile peers names them, and no run fails for them.

It only gets shorter.
"""

from __future__ import annotations

KNOWN: dict[str, frozenset[str]] = {
    "broker-UPDATE_BROKER_CONFIG": frozenset(["65,536 bytes of lines"]),
    "broker-INVOKE_BROKER_TO_RESET_OFFSET": frozenset(["eight resets of 65,536 queues"]),
}
