"""Settings of a listening server, broker and name server alike. Plays the part of NettyServerConfig."""

from __future__ import annotations

import attrs

from rocketpy_broker_sim.config.kinds import count, number, text
from rocketpy_broker_sim.config.settings import Settings

__all__ = ["NettyServerConfig"]


@attrs.define(kw_only=True, eq=False, repr=False)
class NettyServerConfig(Settings):
    """The settings of a listening server: its address and its timeouts."""

    bind_address: str = text("127.0.0.1")
    """Address to listen on. Java's default is every interface; that default holds for configuration files."""
    listen_port: int = number(0, at_most=65_535)
    """Port to listen on; 0 picks any free port."""
    server_channel_max_idle_time_seconds: int = count(120)
    """Seconds after which an idle connection is closed."""
    shutdown_wait_time_seconds: int = number(2)
    """Seconds that a stop waits for pending answers, and for peers to read them."""
