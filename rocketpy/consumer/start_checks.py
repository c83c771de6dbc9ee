"""Checks that a consumer makes while it starts, so that mistakes are reported then and not found later."""

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
    from rocketpy.consumer.pulling.filter_check import FilterCheck
    from rocketpy.consumer.rebalancing.rebalance import Rebalance

__all__ = ["check_filters", "check_heartbeats", "check_name_servers", "wait_shared_out"]

logger = get_logger(__name__)


async def check_name_servers(client: MQClientInstance, topics: Iterable[str], deadline: float) -> None:
    """Ask name servers for the routes of topics.

    Args:
        client: how to reach name servers.
        topics: the topics.
        deadline: when to give up, on trio's clock.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    unreachable: list[NameServerUnreachableError] = []

    async def check(topic: str) -> None:
        timeout = min(client.config.request_timeout, max(0.001, deadline - trio.current_time()))
        try:
            await client.routes.ensure_subscribe(topic, timeout=timeout)
        except NameServerUnreachableError as error:
            unreachable.append(error)
        except RocketMQError as error:
            logger.debug("%s: %s", topic, error)  # the rebalance meets the same error, and logs it

    await side_by_side(check, topics)
    if unreachable:
        raise unreachable[0]


async def check_filters(filters: FilterCheck, deadline: float) -> None:
    """Ask brokers whether they accept the SQL expressions, until `deadline` on trio's clock.

    Raises:
        FilterRefusedError: a broker refuses one.
    """
    with trio.move_on_at(deadline):
        await filters.ask()
    for error in filters.refused.values():
        raise error


async def wait_shared_out(
    rebalance: Rebalance, config: LitePullConsumerConfig | PushConsumerConfig, deadline: float
) -> None:
    """Wait for the first rebalance, and log a warning if it is not over by `deadline` on trio's clock."""
    with trio.move_on_at(deadline):
        await rebalance.wait_round()
    if not rebalance.rounds:
        logger.warning(
            "consumer %s started after %g s without all of its topics, and keeps trying: %s",
            config.group,
            config.start_timeout,
            rebalance.missing(),
        )


def check_heartbeats(client: MQClientInstance, group: str, topics: Iterable[str]) -> None:
    """Refuse a start after which nothing would ever arrive. A broker that is away or busy may still accept the group.

    Raises:
        BrokerError: every broker of the topics refuses the group in heartbeats.
    """
    error = client.heartbeats.refused_everywhere(group, topics)
    if error is not None:
        raise error
