"""The name under which brokers know a client: unique from the first day.

Java's default is the process number, and every container has process 1: two consumers then look like one, and each
gets nothing or everything. Ours adds the time of the start and a random number, so that several clients in one process
are several too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocketpy.seams import random_source, wall_ms

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig

__all__ = ["new_client_id"]


def new_client_id(config: ClientConfig, local_ip: str) -> str:
    """A new id: ip@pid#ns#random, or ip@instance_name when the config has one; then the unit, if there is one."""
    instance = config.instance_name or f"{os.getpid()}#{wall_ms() * 1_000_000}#{random_source().getrandbits(32):08x}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    return f"{config.client_ip or local_ip}@{instance}{unit}"
