"""Asks brokers whether they accept a consumer's SQL expressions, at the start and whenever a subscription changes.

Otherwise a wrong expression would only show in the log, as refused pulls. Plays the part of checkClientInBroker in
MQClientInstance; all brokers of a topic are asked, as their settings may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rocketpy.client.api import group as group_api
from rocketpy.errors import FilterRefusedError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["FilterCheck"]

logger = get_logger(__name__)


class FilterCheck:
    """Asks the brokers, and remembers which ones have accepted which expression.

    Args:
        client: how to reach brokers.
        group: the consumer group.
        expressions: returns the current subscriptions.

    Attributes:
        refused: by topic, the error of a broker that refused its expression.
    """

    def __init__(
        self, client: MQClientInstance, group: str, expressions: Callable[[], Iterable[SubscriptionData]]
    ) -> None:
        self.refused: dict[str, FilterRefusedError] = {}
        self._client = client
        self._group = group
        self._expressions = expressions
        self._agreed: set[tuple[int, str]] = set()

    async def ask(self) -> None:
        """Ask the brokers that have not accepted the current expressions yet; one that is away is asked later."""
        wanted = [data for data in self._expressions() if not data.is_tag]
        versions = {data.sub_version for data in wanted}
        self._agreed = {each for each in self._agreed if each[0] in versions}
        topics = {data.topic for data in wanted}
        self.refused = {topic: error for topic, error in self.refused.items() if topic in topics}
        if wanted:
            await side_by_side(self._ask_all, wanted)

    async def confirm(self, wanted: SubscriptionData, address: str) -> None:
        """Ask a broker whether it accepts an expression that a pull carries, unless it has accepted it.

        Apache's broker answers a pull by a wrong expression with all messages.

        Raises:
            FilterRefusedError: it does not.
            TransportError, RequestTimeoutError: it does not answer.
        """
        if wanted.is_tag or (wanted.sub_version, address) in self._agreed:
            return
        await self._check(wanted, address)

    async def _check(self, wanted: SubscriptionData, address: str) -> None:
        client = self._client
        timeout = client.config.request_timeout
        await group_api.check_filter(client.pool, address, client.client_id, self._group, wanted, timeout=timeout)
        self._agreed.add((wanted.sub_version, address))

    async def _ask_all(self, wanted: SubscriptionData) -> None:
        route = self._client.routes.route(wanted.topic)
        names = sorted(route.brokers) if route is not None else []
        found = [self._client.routes.broker_address(name) for name in names]
        addresses = [address for address in found if address and (wanted.sub_version, address) not in self._agreed]
        errors: list[FilterRefusedError] = []

        async def ask(address: str) -> None:
            try:
                await self._ask(wanted, address)
            except FilterRefusedError as error:
                errors.append(error)

        await side_by_side(ask, addresses)
        if errors:
            self._note(wanted.topic, errors[0])
        else:
            self.refused.pop(wanted.topic, None)

    async def _ask(self, wanted: SubscriptionData, address: str) -> None:
        try:
            await self._check(wanted, address)
        except FilterRefusedError:
            raise
        except RocketMQError as error:
            logger.debug("%s has not confirmed yet that it can filter %s: %s", address, wanted.topic, error)

    def _note(self, topic: str, error: FilterRefusedError) -> None:
        known = self.refused.get(topic)
        if known is None or str(known) != str(error):
            logger.error("%s is not consumed: %s", topic, error)
        self.refused[topic] = error
