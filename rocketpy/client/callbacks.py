"""What brokers ask of a client over its own connections.

A broker may be wrong or worse: what it asks is done only for groups that this client has. Requests for which nobody has
registered a processor are answered with REQUEST_CODE_NOT_SUPPORTED by the dispatcher, and nothing happens. Plays the
part of ClientRemotingProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.group import NotifyConsumerIdsChangedRequestHeader

if TYPE_CHECKING:
    from rocketpy.client.roles import RoleTable
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["callbacks"]

logger = get_logger(__name__)


def callbacks(roles: RoleTable) -> Dispatcher:
    """The dispatcher for requests from brokers to the roles of one client."""

    def consumer_ids_changed(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Somebody joined or left a group: its queues are to be shared out anew."""
        header = NotifyConsumerIdsChangedRequestHeader.from_ext(request.ext_fields)
        role = roles.consumers.get(header.consumer_group)
        if role is None:
            logger.debug("%s tells of the group %.256r, which is not ours", connection.address, header.consumer_group)
        else:
            role.rebalance_now()
        return None

    return Dispatcher({RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: consumer_ids_changed})
