"""What fails today and will not for long: a list that only gets shorter.

An entry that passes fails the run. Entries are by server and code, or by the name of a test.
"""

from __future__ import annotations

KNOWN: dict[str, frozenset[str]] = {}
