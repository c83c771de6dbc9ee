"""The figures of a producer, as users see them: plain records, made on request, in any thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.client.meter import SendFigures
from rocketpy.client.statistics import in_flight

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.sending import SendCore
    from rocketpy.producer.outside import Outside

__all__ = ["BrokerSends", "Observed", "ProducerStatistics", "SendFigures"]


@attrs.frozen(kw_only=True)
class BrokerSends(SendFigures):
    """What has become of the sends to one broker."""

    in_flight: int
    """Requests to the broker that wait for an answer, what else the client has asked it among them."""


@attrs.frozen(kw_only=True)
class ProducerStatistics(SendFigures):
    """What has become of the sends of a producer. Rates and latencies are of the last minute, all else since it was
    opened."""

    in_flight: int
    """Sends that have begun and not ended. Those of `linger` count by batches, except in threads."""
    brokers: Mapping[str, BrokerSends]
    """By name, the brokers that it has sent to."""
    topics: Mapping[str, SendFigures]
    """The topics that it has sent to."""


class Observed:
    """What a producer needs to tell its figures."""

    client: MQClientInstance
    outside: Outside
    _core: SendCore
    _under_way: int

    def statistics(self) -> ProducerStatistics:
        """What has become of its sends. From any thread, and in every state."""
        return self.statistics_with(self._under_way)

    def statistics_with(self, under_way: int) -> ProducerStatistics:
        """The same for other surfaces, which know themselves how many sends are under way."""
        meter, client = self._core.meter, self.client
        brokers = {
            name: BrokerSends(**_fields(found), in_flight=in_flight(client, name))
            for name, found in meter.by_broker().items()
        }
        total = _fields(meter.total())
        return ProducerStatistics(**total, in_flight=under_way, brokers=brokers, topics=meter.by_topic())

    @property
    def under_way_inside(self) -> int:
        """Sends under way that only the trio loop knows of, such as frames of `send_many`."""
        return max(0, self._under_way - self.outside.under_way)


def _fields(figures: SendFigures) -> dict[str, Any]:
    """The fields of a record, as they are."""
    return {field.name: getattr(figures, field.name) for field in attrs.fields(SendFigures)}
