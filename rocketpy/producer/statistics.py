"""The statistics of a producer: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from rocketpy.client.fault_statistics import FaultStatistics
from rocketpy.client.meter import SendFigures
from rocketpy.client.statistics import in_flight

if TYPE_CHECKING:
    from weakref import WeakMethod

    import trio

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.sending import SendCore
    from rocketpy.config import ProducerConfig
    from rocketpy.producer.local_half import AsyncCaller, CheckerCalls
    from rocketpy.producer.outside import Outside

__all__ = ["BrokerSends", "Observed", "ProducerStatistics", "SendFigures"]


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


class Observed:
    """The statistics of a producer, as a base class."""

    client: MQClientInstance
    config: ProducerConfig
    outside: Outside
    _async_caller: AsyncCaller | None
    _core: SendCore
    _reporting: CheckerCalls | None = None
    _under_way: int
    of_surface: WeakMethod[Callable[[], ProducerStatistics]] | None = None
    """`statistics` of another surface, which knows more; weak, so that a producer that is forgotten can be reported."""

    def statistics(self) -> ProducerStatistics:
        """Return the statistics of the sends. From any thread, and in every state: zeros before it is started."""
        return self.statistics_with(self._under_way)

    def statistics_with(self, under_way: int) -> ProducerStatistics:
        """Return the statistics for another surface, which knows how many sends are in flight."""
        meter = self._core.meter
        brokers = {
            name: BrokerSends(**_fields(found), in_flight=self._requests_in_flight(name))
            for name, found in meter.by_broker().items()
        }
        total, faults = _fields(meter.total()), self._core.fault.statistics()
        return ProducerStatistics(**total, in_flight=under_way, brokers=brokers, topics=meter.by_topic(), faults=faults)

    def _requests_in_flight(self, broker_name: str) -> int:
        """Requests to the master of a broker that wait for an answer, those of other roles of the client included."""
        client = self.client
        return in_flight(client.pool, client.data_links, client.routes.broker_address(broker_name))

    def _begin_reports(self, nursery: trio.Nursery) -> Callable[[], Awaitable[None]]:
        """Start to report statistics to the user's function; returns a function that ends the reports."""
        from rocketpy.client.reports import Reports  # few producers report
        from rocketpy.producer.local_half import CheckerCalls, call_in_this_loop

        group = self.config.group
        self._reporting = CheckerCalls(group, 1, self._async_caller or call_in_this_loop, what="statistics")
        reports = Reports(f"producer {group}", self.config, self._all_figures, self._reporting)
        nursery.start_soon(reports.run)
        return reports.close

    def _all_figures(self) -> ProducerStatistics:
        """Return what `statistics` of the surface returns."""
        of_surface = None if self.of_surface is None else self.of_surface()
        return self.statistics() if of_surface is None else of_surface()

    @property
    def in_report(self) -> bool:
        """Whether the current code was called by `on_statistics`, for which closing waits."""
        return self._reporting is not None and self._reporting.is_here

    @property
    def under_way_inside(self) -> int:
        """Sends in flight that only the trio loop knows of, such as frames of `send_many`."""
        return max(0, self._under_way - self.outside.under_way)


def _fields(figures: SendFigures) -> dict[str, Any]:
    """The fields of a record, as they are."""
    return {field.name: getattr(figures, field.name) for field in attrs.fields(SendFigures)}
