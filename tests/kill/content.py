"""What a message of a kill loop looks like, given its id alone: a reader can tell whether it is whole."""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import TYPE_CHECKING

from rocketpy.message import Message

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

TOPIC = "Killed"
BROKER = "broker-a"
TRANSACTED, TRANSACTORS = "Transacted", "transactors"
"""A topic of messages that are sent in transactions, and their producer group."""
QUEUES = 8
SMALLEST, LARGEST = 256, 1024


class State(Enum):
    """What a producer says of a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


def verdict_of(name: str) -> tuple[State, State]:
    """What is said of the transaction of an id at first, and what when its producer is asked."""
    number = hashlib.sha256(b"verdict" + name.encode()).digest()[0]
    final = State.ROLLBACK if number % 3 == 0 else State.COMMIT
    return (State.UNKNOWN if number % 5 == 0 else final), final


class Way(Enum):
    """How a group consumes."""

    CONCURRENT = "one message at a time, of any queue"
    ORDERLY = "in order, with locks"
    POLLED = "by lite pull, of whose members one commits by itself and the other acknowledges"
    BROADCAST = "every message to every member, with offsets in a file"


GROUPS = {"audit": Way.CONCURRENT, "billing": Way.ORDERLY, "ledger": Way.POLLED, "notices": Way.BROADCAST}
ORDERLY = tuple(group for group, way in GROUPS.items() if way is Way.ORDERLY)
BROADCAST = tuple(group for group, way in GROUPS.items() if way is Way.BROADCAST)
SHARING = tuple(group for group in GROUPS if group not in BROADCAST)
MEMBERS = {"consumer-0": SHARING, "consumer-1": (*SHARING, *BROADCAST)}
"""Of which groups each process of consumers has a member."""


def role_of(name: str) -> str:
    """Of which role a process is a life."""
    return name.rpartition("-")[0]


def body_of(name: str) -> bytes:
    """256 to 1,024 bytes that begin with the id."""
    digest = hashlib.sha256(name.encode()).digest()
    size = SMALLEST + int.from_bytes(digest[:2], "big") % (LARGEST - SMALLEST + 1)
    head = name.encode() + b"\n"
    return (head + digest * (size // len(digest) + 1))[:size]


def name_of(body: bytes) -> str:
    """The id that a body begins with."""
    return body.split(b"\n", 1)[0].decode("ascii", "replace")


def message_of(name: str) -> Message:
    """The message of an id, with a tag, a key and a property."""
    return Message(TOPIC, body_of(name), keys=name, tags=tag_of(name), properties={"copy": name})


def tag_of(name: str) -> str:
    """Its tag."""
    return f"t{len(name) % 3}"


def is_whole(found: MessageExt) -> bool:
    """Whether a stored message is what its id says, in every part that was sent."""
    name = name_of(found.body)
    sent = (body_of(name), name, tag_of(name), name)
    properties = found.wire_properties
    return (found.body, properties.get("KEYS"), properties.get("TAGS"), properties.get("copy")) == sent
