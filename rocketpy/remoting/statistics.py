"""What a connection has done and what it holds, as a record."""

from __future__ import annotations

import attrs

__all__ = ["ConnectionStatistics"]


@attrs.frozen(kw_only=True)
class ConnectionStatistics:
    """What a connection has done and what it holds."""

    in_flight: int
    """Requests of ours that wait for an answer."""
    parked: int
    """Requests of the peer that wait for an answer."""
    pending_bytes: int
    unparsed_bytes: int
    sent_bytes: int
    received_bytes: int
    received_requests: int
    received_answers: int
    unknown_answers: int
    """Answers that nobody waited for: late ones, and ones that were never asked for."""
