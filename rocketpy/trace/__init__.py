"""Message traces: who sent and who consumed each message, when, and how that went.

Records are made where that happens, gathered by one dispatcher for each client and topic, and sent as messages to a
topic of the brokers. Plays the part of the package client.trace.
"""

from __future__ import annotations

from rocketpy.trace.decoding import TraceRecord, decode_traces

__all__ = ["TraceRecord", "decode_traces"]
