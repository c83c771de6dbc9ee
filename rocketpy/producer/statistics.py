"""The statistics of a producer: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from rocketpy.client.fault_statistics import FaultStatistics
from rocketpy.client.meter import SendFigures

__all__ = ["BrokerSends", "ProducerStatistics", "SendFigures"]


@attrs.frozen(kw_only=True, repr=False)
class BrokerSends(SendFigures):
    """The statistics of the sends to one broker."""

    in_flight: int
    """Requests of the client to the broker that wait for an answer, including those that are not sends."""


@attrs.frozen(kw_only=True, repr=False)
class ProducerStatistics(SendFigures):
    """The statistics of a producer. Rates and latencies cover the last minute, counters the time since it was
    opened."""

    _shown_first: ClassVar[tuple[str, ...]] = ("sent", "failed", "retries", "in_flight", "sent_per_second")

    in_flight: int
    """Sends that have begun and not ended. With `linger`, a batch counts as one, except for sends from threads."""
    brokers: Mapping[str, BrokerSends]
    """The sends to each broker, by broker name."""
    topics: Mapping[str, SendFigures]
    """The sends to each topic."""
    faults: FaultStatistics
    """The brokers that the producer avoids because they were slow or failed."""
