"""Message traces: records of who sent and who consumed each message, when, and whether that succeeded.

Producers and consumers make the records; one dispatcher for each client and trace topic collects them, and sends them
as messages to that topic. Plays the part of the package client.trace.
"""

from __future__ import annotations

from rocketpy.trace.decoding import TraceRecord, decode_traces

__all__ = ["TraceRecord", "decode_traces"]
