"""Requests of administrators about the settings and the state of the broker. Plays a part of AdminBrokerProcessor.

An allow-list says which settings can be changed; no path, address or command is among them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.admin import GetBrokerConfigResponseHeader
from rocketpy_broker_sim.config import (
    BROKER_UPDATES,
    MAX_UPDATE,
    as_properties,
    format_properties,
    parse_properties,
    update_settings,
)

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import BrokerAdminView

__all__ = ["get_config", "get_runtime_info", "update_config"]

log = get_logger(__name__)

_FOR_TOOLS = {
    "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
    "filterServerNums": "0",
    "useTLS": "false",
}
"""Keys of parts that do not exist here. Tools of releases 4.x end with a null pointer without the last two; the first
one is what tools show as the number of processors."""


def update_config(broker: BrokerAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Change settings, all or none. They are not written to a file.

    Raises:
        BrokerError: a key may not be changed, or a value is not acceptable.
    """
    if len(request.body) > MAX_UPDATE:
        remark = f"the settings have {len(request.body)} bytes, {MAX_UPDATE} are allowed: send them in several requests"
        return request.answer(ResponseCode.INVALID_PARAMETER, remark)
    try:
        properties = parse_properties(request.body.decode())
    except (UnicodeDecodeError, ConfigError):
        return request.answer(ResponseCode.INVALID_PARAMETER, "the body is not text of key=value lines")
    config = broker.config
    permission = config.broker_permission
    update_settings([config, config.store, config.server], properties, BROKER_UPDATES)
    for key, value in properties.items():
        log.info("%s sets %s to %s", quote(connection.address), key, quote(value))
    broker.identity.settings_changed()
    if config.broker_permission != permission:
        broker.topics.touch()
    return request.answer()


def get_config(broker: BrokerAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The settings by Java's keys."""
    header = GetBrokerConfigResponseHeader(version=broker.identity.config_version.encode().decode())
    text = format_properties(dict(sorted((_FOR_TOOLS | as_properties(broker.config)).items())))
    return request.answer(ext_fields=header.to_ext(), body=text.encode())


def get_runtime_info(broker: BrokerAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The state of the broker, as a table of text."""
    return request.answer(body=KVTable(table=broker.runtime_info()).encode())
