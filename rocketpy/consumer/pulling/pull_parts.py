"""PullParts: what the tasks that pull the queues of one consumer share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.consumed import Consumed
from rocketpy.consumer.offsets.offset_store import OffsetStore
from rocketpy.consumer.pauses import Pauses
from rocketpy.consumer.pulling.filter_check import FilterCheck
from rocketpy.consumer.pulling.pull_policy import PullPolicy, PullSettings
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageQueue

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.subscription import Subscription
    from rocketpy.message import MessageExt

__all__ = ["Consumption", "PullCounters", "PullParts"]

logger = get_logger("rocketpy.consumer.pulling.pull")


@attrs.define
class PullCounters:
    """Counts of pulls and messages so far."""

    pulls: int = 0
    messages: int = 0
    """Messages pulled, without those in `filtered`."""
    filtered: int = 0
    """Messages pulled and discarded, because they have another tag with the same hash."""
    undecodable: int = 0
    """Answers with a damaged message."""
    resets: int = 0
    """How often a broker moved a queue to another offset."""


class Wanted(Protocol):
    """The subscriptions of a consumer."""

    def get(self, topic: str) -> Subscription | None:
        """The subscription to a topic, None when there is none."""
        ...


class Consumption(Protocol):
    """What takes pulled messages."""

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        """Consume messages that a process queue holds."""
        ...

    def collect(self) -> None:
        """Process everything that has been consumed by now."""
        ...


@attrs.define(eq=False)
class PullParts:
    """What the pullers of a consumer share."""

    client: MQClientInstance
    config: PullSettings
    subscriptions: Wanted
    offsets: OffsetStore
    consume: Consumption
    policy: PullPolicy
    pauses: Pauses = attrs.Factory(Pauses)
    consumed: Consumed = attrs.Factory(lambda: Consumed(None, 0))
    """Remembers consumed messages, to recognise duplicates."""
    counters: PullCounters = attrs.Factory(PullCounters)
    rates: ConsumerRates = attrs.Factory(lambda: ConsumerRates(trio.current_time))
    without_lite: set[str] = attrs.Factory(set)
    """The addresses of brokers that do not support the request code of lite pulls."""
    seldom: Seldom = attrs.Factory(lambda: Seldom(logger, clock=trio.current_time))
    announced: trio.Event = attrs.Factory(trio.Event)
    """Set once brokers have received a heartbeat with the current subscriptions."""
    filters: FilterCheck | None = None
    """Confirms the expressions that pulls carry, if they do."""
    moved: Callable[[MessageQueue, int], None] | None = None
    """Called with a queue that a broker has reset and its new offset: gives the queue up and takes it again there. If
    None, pulling simply continues there."""

    def subscriptions_changed(self) -> None:
        """Brokers do not know the current subscriptions any more: `announced` is to be waited for again."""
        self.announced = trio.Event()
