"""Attacks that do not hold yet, by server and code: the page of hostile peers names them, and no run fails for them.

It only gets shorter.
"""

from __future__ import annotations

KNOWN: dict[str, frozenset[str]] = {}
