"""Settings of a name server. Plays the part of NamesrvConfig."""

from __future__ import annotations

import attrs

from rocketpy_broker_sim.config.kinds import count, number, own, switch, text
from rocketpy_broker_sim.config.metrics import MetricsConfig
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.settings import Settings

__all__ = ["NamesrvConfig"]

NAMESRV_PORT = 9876


@attrs.define(kw_only=True, eq=False, repr=False)
class NamesrvConfig(Settings):
    """The settings of a name server, besides those of listening. Units are Java's."""

    kv_config_path: str = text("")
    """File of the key-value configuration; "" keeps it in memory. Cannot be changed at run time."""
    order_message_enable: bool = switch(False)
    """Whether routes carry the ordered-topic configuration of their topic."""
    return_order_topic_config_to_broker: bool = switch(True)
    """Whether the answer to a registration carries the ordered-topic configurations."""
    scan_not_active_broker_interval: int = count(5000)
    """Time between two checks for silent brokers."""
    support_acting_master: bool = switch(False)
    """Whether a replica may act as master while the master is down."""
    enable_all_topic_list: bool = switch(True)
    """Whether all topics may be listed."""
    enable_topic_list: bool = switch(True)
    """Whether topics of a cluster or a unit may be listed."""
    notify_min_broker_id_changed: bool = switch(False)
    """Whether brokers are notified when the lowest broker id of their name changes."""
    need_wait_for_service: bool = switch(False)
    """Whether routes are answered only after brokers have had time to register."""
    wait_seconds_for_service: int = number(45)
    """Seconds after the start during which no routes are answered, with `need_wait_for_service`."""
    delete_topic_with_broker_registration: bool = switch(False)
    """Whether a topic is removed if a full registration does not contain it."""
    max_kept_bytes: int = own(256 * 1024 * 1024)
    """The memory budget for data from peers, in bytes; at most half of it is used for key-value pairs."""
    metrics: MetricsConfig = attrs.Factory(MetricsConfig)
    server: NettyServerConfig = attrs.Factory(lambda: NettyServerConfig(listen_port=NAMESRV_PORT))
