"""The figures of a producer, as users see them: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

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


@attrs.frozen(kw_only=True)
class BrokerSends(SendFigures):
    """The figures of the sends to one broker."""

    in_flight: int
    """Requests to the broker that wait for an answer, what else the client has asked it among them."""


@attrs.frozen(kw_only=True)
class ProducerStatistics(SendFigures):
    """The figures of the sends of a producer. Rates and latencies are of the last minute, all else since it was
    opened."""

    in_flight: int
    """Sends that have begun and not ended. Those of `linger` count by batches, except in threads."""
    brokers: Mapping[str, BrokerSends]
    """By name, the brokers that it has sent to."""
    topics: Mapping[str, SendFigures]
    """The topics that it has sent to."""
    faults: FaultStatistics
    """The brokers that it passes over because they were slow or failed."""


class Observed:
    """What a producer needs to tell its figures."""

    client: MQClientInstance
    config: ProducerConfig
    outside: Outside
    _async_caller: AsyncCaller | None
    _core: SendCore
    _reporting: CheckerCalls | None = None
    _under_way: int
    of_surface: WeakMethod[Callable[[], ProducerStatistics]] | None = None
    """`statistics` of another surface, which knows more; weak, so that one that is forgotten can be told of."""

    def statistics(self) -> ProducerStatistics:
        """The figures of its sends. From any thread, and in every state."""
        return self.statistics_with(self._under_way)

    def statistics_with(self, under_way: int) -> ProducerStatistics:
        """The same for other surfaces, which know themselves how many sends are under way."""
        meter, client = self._core.meter, self.client
        brokers = {
            name: BrokerSends(**_fields(found), in_flight=in_flight(client, name))
            for name, found in meter.by_broker().items()
        }
        total, faults = _fields(meter.total()), self._core.fault.statistics()
        return ProducerStatistics(**total, in_flight=under_way, brokers=brokers, topics=meter.by_topic(), faults=faults)

    def _begin_reports(self, nursery: trio.Nursery) -> Callable[[], Awaitable[None]]:
        """Tell the user's function the statistics from now on; gives what ends that."""
        from rocketpy.client.reports import Reports  # few producers report
        from rocketpy.producer.local_half import CheckerCalls, call_in_this_loop

        group = self.config.group
        self._reporting = CheckerCalls(group, 1, self._async_caller or call_in_this_loop, what="statistics")
        reports = Reports(f"producer {group}", self.config, self._all_figures, self._reporting)
        nursery.start_soon(reports.run)
        return reports.close

    def _all_figures(self) -> ProducerStatistics:
        """What `statistics` of the surface returns."""
        of_surface = None if self.of_surface is None else self.of_surface()
        return self.statistics() if of_surface is None else of_surface()

    @property
    def in_report(self) -> bool:
        """Whether the code that runs was called by `on_statistics`, which closing waits for."""
        return self._reporting is not None and self._reporting.is_here

    @property
    def under_way_inside(self) -> int:
        """Sends under way that only the trio loop knows of, such as frames of `send_many`."""
        return max(0, self._under_way - self.outside.under_way)


def _fields(figures: SendFigures) -> dict[str, Any]:
    """The fields of a record, as they are."""
    return {field.name: getattr(figures, field.name) for field in attrs.fields(SendFigures)}
