"""What a consumer makes sure of while it starts, so that a mistake is told then and not found out later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import NameServerUnreachableError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig, PushConsumerConfig
    from rocketpy.consumer.filter_check import FilterCheck
    from rocketpy.consumer.rebalance import Rebalance

__all__ = ["check_filters", "check_name_servers", "wait_shared_out"]

logger = get_logger(__name__)


async def check_name_servers(client: MQClientInstance, topics: Iterable[str], deadline: float) -> None:
    """Ask for the routes of topics until then, a time of trio's clock.

    Raises:
        NameServerUnreachableError: no name server answers.
    """
    unreachable: list[NameServerUnreachableError] = []

    async def check(topic: str) -> None:
        timeout = min(client.config.request_timeout, max(0.001, deadline - trio.current_time()))
        try:
            await client.routes.ensure_subscribe(topic, timeout=timeout)
        except NameServerUnreachableError as error:
            unreachable.append(error)
        except RocketMQError as error:
            logger.debug("%s: %s", topic, error)  # found out again, and told, when its queues are shared out

    await side_by_side(check, topics)
    if unreachable:
        raise unreachable[0]


async def check_filters(filters: FilterCheck, deadline: float) -> None:
    """Ask brokers whether they can filter as is subscribed.

    Raises:
        FilterRefusedError: one cannot.
    """
    with trio.move_on_at(deadline):
        await filters.ask()
    for error in filters.refused.values():
        raise error


async def wait_shared_out(
    rebalance: Rebalance, config: LitePullConsumerConfig | PushConsumerConfig, deadline: float
) -> None:
    """Wait for the first look at who consumes what; one that takes longer is waited for later."""
    with trio.move_on_at(deadline):
        await rebalance.wait_round()
    if not rebalance.rounds:
        logger.warning(
            "consumer %s started after %g s without all of its topics, and keeps trying: %s",
            config.group,
            config.start_timeout,
            rebalance.missing(),
        )
