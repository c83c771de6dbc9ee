"""Telling the members of a consumer group that it changed, so that they share the queues anew.

Plays the part of DefaultConsumerIdsChangeListener and Broker2Client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import NotifyConsumerIdsChangedRequestHeader

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.clients import Channel

__all__ = ["notify_consumer_ids_changed"]

_logger = get_logger(__name__)


def notify_consumer_ids_changed(group: str, channels: Iterable[Channel]) -> None:
    """Send NOTIFY_CONSUMER_IDS_CHANGED to every member; one that cannot be told will find out by itself."""
    fields = NotifyConsumerIdsChangedRequestHeader(consumer_group=group).to_ext()
    for channel in channels:
        connection = cast("Connection", channel)
        try:
            connection.send_oneway(RemotingCommand.oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, dict(fields)))
        except RocketMQError as exc:
            _logger.info("group %s: %s was not told that it changed: %s", group, connection.address, exc)
