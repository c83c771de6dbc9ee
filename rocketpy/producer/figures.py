"""Makes the statistics of a producer, and reports them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.client.meter import SendFigures
from rocketpy.client.statistics import in_flight
from rocketpy.producer.statistics import BrokerSends, ProducerStatistics

if TYPE_CHECKING:
    import trio

    from rocketpy.client.sends.sending import SendCore
    from rocketpy.producer.local_half import CheckerCalls
    from rocketpy.producer.send_count import SendCount
    from rocketpy.producer.surface import ProducerSurface

__all__ = ["Figures"]


class Figures:
    """Makes the statistics of one producer, and reports them to the user's function.

    Args:
        core: what the attempts of its sends share.
        sends: counts the sends that are under way.
        surface: calls the user's function if it is async, and knows which statistics to report.
    """

    def __init__(
        self,
        core: SendCore,
        sends: SendCount,
        surface: ProducerSurface,
    ) -> None:
        self._core = core
        self._sends = sends
        self._surface = surface
        self._reporting: CheckerCalls | None = None

    def statistics(self, outside: int | None = None) -> ProducerStatistics:
        """Return the statistics. From any thread, and in every state: zeros before the start.

        Args:
            outside: how many sends another surface has in flight; None for the trio surface, whose sends are all
                counted in the loop.
        """
        meter, sends = self._core.meter, self._sends
        under_way = sends.total if outside is None else outside + sends.inside
        brokers = {
            name: BrokerSends(**_fields(found), in_flight=self._requests_in_flight(name))
            for name, found in meter.by_broker().items()
        }
        total, faults = _fields(meter.total()), self._core.fault.statistics()
        return ProducerStatistics(**total, in_flight=under_way, brokers=brokers, topics=meter.by_topic(), faults=faults)

    def _requests_in_flight(self, broker_name: str) -> int:
        """Requests to the master of a broker that wait for an answer, those of other roles of the client included."""
        client = self._core.client
        return in_flight(client.pool, client.data_links, client.routes.broker_address(broker_name))

    def begin_reports(self, nursery: trio.Nursery) -> Callable[[], Awaitable[None]]:
        """Start to report statistics to the user's function; returns a function that ends the reports."""
        from rocketpy.client.reports import Reports  # few producers report
        from rocketpy.producer.local_half import CheckerCalls

        config = self._core.config
        self._reporting = CheckerCalls(config.group, 1, self._surface.async_caller, what="statistics")
        reports = Reports(f"producer {config.group}", config, self._for_report, self._reporting)
        nursery.start_soon(reports.run)
        return reports.close

    def _for_report(self) -> ProducerStatistics:
        """Return what `statistics` of the surface returns."""
        weak = self._surface.statistics
        of_surface = None if weak is None else weak()
        return self.statistics() if of_surface is None else of_surface()

    @property
    def in_report(self) -> bool:
        """Whether the current code was called by `on_statistics`, for which closing waits."""
        return self._reporting is not None and self._reporting.is_here


def _fields(figures: SendFigures) -> dict[str, Any]:
    """The fields of a record, as they are."""
    return {field.name: getattr(figures, field.name) for field in attrs.fields(SendFigures)}
