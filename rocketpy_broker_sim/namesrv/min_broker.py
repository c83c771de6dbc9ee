"""Telling brokers that the lowest id of their group has changed, so that a slave may begin or cease to act as master.

What is told and to whom is worked out from the tables at once; the messages are one-way and may get lost, because
brokers ask for their group now and then as well. Plays the part of notifyMinBrokerIdChanged in RouteInfoManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import NotifyMinBrokerIdChangeRequestHeader

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.route import BrokerData

__all__ = ["MinBrokerChange", "MinBrokerNotifier", "change_after_joining", "change_after_leaving"]

logger = get_logger(__name__)

TELL_WITHIN = 0.3
"""Seconds to reach one broker: the next change may come soon."""
MAX_UNDER_WAY = 256
"""Brokers that are being told at the same time; more than these hear nothing."""


@attrs.frozen(kw_only=True)
class MinBrokerChange:
    """The lowest id among the brokers of one name is another one now."""

    broker_name: str
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None
    """Who left; None when somebody joined."""
    ha_address: str | None
    """Where slaves copy from now; None when somebody left."""
    tell: tuple[str, ...]
    """The addresses of those who are to know."""

    def command(self) -> RemotingCommand:
        """The request that says so."""
        header = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=self.min_broker_id,
            min_broker_addr=self.min_broker_address,
            offline_broker_addr=self.offline_address,
            ha_broker_addr=self.ha_address,
        )
        return RemotingCommand(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, header.to_ext())


def change_after_joining(broker: BrokerData, ha_address: str) -> MinBrokerChange:
    """A broker with a lower id than all others has joined: the others are told, a lone one hears of itself."""
    lowest = min(broker.broker_addrs)
    others = tuple(address for number, address in broker.broker_addrs.items() if number != lowest)
    return MinBrokerChange(
        broker_name=broker.broker_name,
        min_broker_id=lowest,
        min_broker_address=broker.broker_addrs[lowest],
        offline_address=None,
        ha_address=ha_address,
        tell=others or (broker.broker_addrs[lowest],),
    )


def change_after_leaving(broker: BrokerData, offline_address: str) -> MinBrokerChange:
    """The broker with the lowest id has left: all that remain are told."""
    lowest = min(broker.broker_addrs)
    return MinBrokerChange(
        broker_name=broker.broker_name,
        min_broker_id=lowest,
        min_broker_address=broker.broker_addrs[lowest],
        offline_address=offline_address,
        ha_address=None,
        tell=tuple(broker.broker_addrs.values()),
    )


class MinBrokerNotifier:
    """Tells them, each in a task of its own so that one who is away keeps nobody waiting.

    Args:
        pool: connections to brokers.
        nursery: where the tasks live.
    """

    def __init__(self, pool: ConnectionPool, nursery: trio.Nursery) -> None:
        self._pool = pool
        self._nursery = nursery
        self._under_way = 0

    def tell(self, change: MinBrokerChange) -> None:
        """Begin to tell everybody whom a change concerns."""
        logger.info("the lowest id of broker %r is %d now", change.broker_name, change.min_broker_id)
        told = change.tell[: MAX_UNDER_WAY - self._under_way]
        if len(told) < len(change.tell):
            left_out = len(change.tell) - len(told)
            logger.warning("%d brokers %r are not notified: too many notices at once", left_out, change.broker_name)
        for address in told:
            self._under_way += 1
            self._nursery.start_soon(self._tell, address, change.command())

    @trio.lowlevel.enable_ki_protection
    async def _tell(self, address: str, command: RemotingCommand) -> None:
        try:
            connection = self._pool.nowait(address) or await self._pool.get(address, timeout=TELL_WITHIN)
            connection.send_oneway(command)
        except RocketMQError as error:
            logger.info("broker %r was not notified of its lowest id: %s", address, error)
        finally:
            self._under_way -= 1
