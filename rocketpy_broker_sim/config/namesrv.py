"""Settings of a name server. Plays the part of NamesrvConfig."""

from __future__ import annotations

import attrs

from rocketpy_broker_sim.config.kinds import count, number, own, switch, text
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.settings import Settings

__all__ = ["NamesrvConfig"]

NAMESRV_PORT = 9876


@attrs.define(kw_only=True, eq=False, repr=False)
class NamesrvConfig(Settings):
    """What a name server does beyond listening. Times are milliseconds where Java's are."""

    kv_config_path: str = text("")
    """File of the key values; "" keeps them in memory. Never changeable at run time."""
    order_message_enable: bool = switch(False)
    """Whether routes carry the order configuration of their topic."""
    return_order_topic_config_to_broker: bool = switch(True)
    """Whether the answer to a registration carries the order configurations."""
    scan_not_active_broker_interval: int = count(5000)
    """Between two looks for brokers that have gone silent."""
    support_acting_master: bool = switch(False)
    """Whether a replica may stand in for a master that is gone."""
    enable_all_topic_list: bool = switch(True)
    """Whether all topics may be listed."""
    enable_topic_list: bool = switch(True)
    """Whether topics of a cluster or a unit may be listed."""
    notify_min_broker_id_changed: bool = switch(False)
    """Whether brokers hear that the lowest id of their name changed."""
    need_wait_for_service: bool = switch(False)
    """Whether routes are held back until brokers had time to register."""
    wait_seconds_for_service: int = number(45)
    """For how long they are."""
    delete_topic_with_broker_registration: bool = switch(False)
    """Whether a topic that a full registration leaves out is forgotten."""
    max_kept_bytes: int = own(256 * 1024 * 1024)
    """What peers may make the name server keep in memory, in bytes: half of it, at most, in its key values."""
    server: NettyServerConfig = attrs.Factory(lambda: NettyServerConfig(listen_port=NAMESRV_PORT))
