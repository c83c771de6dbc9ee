"""The figures of a producer, as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rocketpy.client.fault_statistics import FaultStatistics

if TYPE_CHECKING:
    from rocketpy.client.sending import SendCore

__all__ = ["Observed", "ProducerStatistics"]


@attrs.frozen(kw_only=True)
class ProducerStatistics:
    """How the sends of a producer go."""

    faults: FaultStatistics
    """The brokers that it passes over because they were slow or failed."""


class Observed:
    """What a producer needs to tell its figures."""

    _core: SendCore

    def statistics(self) -> ProducerStatistics:
        """How its sends go. From any thread, and at any time."""
        return ProducerStatistics(faults=self._core.fault.statistics())
