"""Client ids, by which brokers identify clients, and which are unique.

Java's default contains the process id, which is 1 in every container: two consumers then look like one, and queues are
consumed twice or not at all. Ours adds the start time and a random number, so that several clients in one process have
different ids too.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from rocketpy.seams import random_source, wall_ms
from rocketpy.wire.message_id import UniqueIds

if TYPE_CHECKING:
    from rocketpy.config import ClientConfig

__all__ = ["new_client_id", "new_unique_ids"]


def new_client_id(config: ClientConfig, local_ip: str) -> str:
    """A new id: ip@pid#ns#random, or ip@instance_name if the config has a name; followed by @unit, if it has a unit."""
    instance = config.instance_name or f"{os.getpid()}#{wall_ms() * 1_000_000}#{random_source().getrandbits(32):08x}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    return f"{config.client_ip or local_ip}@{instance}{unit}"


def new_unique_ids(local_ip: str) -> UniqueIds:
    """What makes the unique ids of messages that are sent from an address."""
    return UniqueIds(ipaddress.ip_address(local_ip).packed, os.getpid())
