"""Client ids, by which brokers identify clients, and which are unique.

Java's default contains the process id, which is 1 in every container: two consumers then look like one, and queues are
consumed twice or not at all. Ours adds the start time and a random number, so that several clients in one process have
different ids too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocketpy.seams import random_source, wall_ms

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig

__all__ = ["new_client_id"]


def new_client_id(config: ClientConfig, local_ip: str) -> str:
    """A new id: ip@pid#ns#random, or ip@instance_name if the config has a name; followed by @unit, if it has a unit."""
    instance = config.instance_name or f"{os.getpid()}#{wall_ms() * 1_000_000}#{random_source().getrandbits(32):08x}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    return f"{config.client_ip or local_ip}@{instance}{unit}"
