"""Who a broker is: where clients find it, and what messages and answers carry of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.putting.store_stage import packed_address

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Identity"]


class Identity:
    """What every part may know of the whole.

    Args:
        config: the settings; some are kept here in another form.

    Attributes:
        address: What clients dial, "host:port"; empty until the broker listens.
        store_host: The same, as records carry it.
        boot_timestamp: When it was made, ms.
        unique_ids: Names messages that have no name.
        config_version: Rises when settings are changed by request.
        send_fields: What every answer to a send carries.
        added_property_map: What is added to the properties of every message.
        added_properties: The same, as text.
    """

    __slots__ = (
        "_config",
        "added_properties",
        "added_property_map",
        "address",
        "boot_timestamp",
        "config_version",
        "send_fields",
        "store_host",
        "unique_ids",
    )

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.address = ""
        self.store_host = bytes(8)
        self.boot_timestamp = wall_ms()
        self.unique_ids = UniqueIds(bytes(4), os.getpid())
        self.config_version = DataVersion()
        self._refresh()

    @property
    def broker_name(self) -> str:
        """The name that clients use for the broker."""
        return self._config.broker_name

    def settle(self, address: str, local_ip: Callable[[], str]) -> None:
        """Note where the broker is.

        Args:
            address: what clients dial.
            local_ip: the address of this machine, for records, which can carry no names.
        """
        self.address = address
        self.store_host = packed_address(address)
        if not any(self.store_host):
            _, port = parse_address(address)
            self.store_host = packed_address(format_address(local_ip(), port))

    def settings_changed(self) -> None:
        """Take over settings that were changed by request."""
        self.config_version = self.config_version.next_version()
        self._refresh()

    def _refresh(self) -> None:
        config = self._config
        trace = "true" if config.trace_on else "false"
        self.added_property_map = {
            PropertyName.MSG_REGION: config.region_id,
            PropertyName.TRACE_SWITCH: trace,
            PropertyName.CLUSTER: config.broker_cluster_name,
        }
        self.added_properties = encode_properties(self.added_property_map)
        self.send_fields = {"TRACE_ON": trace, "MSG_REGION": config.region_id}
