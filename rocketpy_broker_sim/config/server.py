"""Settings of a listening server, broker and name server alike. Plays the part of NettyServerConfig."""

from __future__ import annotations

import attrs

from rocketpy_broker_sim.config.kinds import count, number, text
from rocketpy_broker_sim.config.settings import Settings

__all__ = ["NettyServerConfig"]


@attrs.define(kw_only=True, eq=False, repr=False)
class NettyServerConfig(Settings):
    """Where a server listens and how long it bears silence."""

    bind_address: str = text("127.0.0.1")
    """Interface to listen on. Java's default is every interface; files of Apache's keep that default."""
    listen_port: int = number(0, at_most=65_535)
    """0 takes any free port."""
    server_channel_max_idle_time_seconds: int = count(120)
    """A connection that says nothing for so long is closed."""
    shutdown_wait_time_seconds: int = number(2)
    """How long a stop waits for answers that are still due, and for peers that do not read theirs."""
