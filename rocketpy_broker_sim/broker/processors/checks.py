"""What every processor asks of the names and numbers in a request, before it uses them for anything."""

from __future__ import annotations

from rocketpy.errors import BrokerError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import is_valid_group, is_valid_stored_topic
from rocketpy.wire.sysflag import Permission

__all__ = [
    "MAX_CLIENT_ID",
    "MAX_QUEUES",
    "check_client_id",
    "check_group",
    "check_permission",
    "check_queue_id",
    "check_queues",
    "check_topic",
    "invalid",
]

MAX_QUEUES = 65_536
"""Queues of a topic on one broker. Apache's has no bound; clients make lists of them."""
MAX_CLIENT_ID = 1024
"""Characters of a client id."""


def invalid(remark: str) -> BrokerError:
    """The error for a field that is not acceptable."""
    return BrokerError.for_code(ResponseCode.INVALID_PARAMETER, remark)


def check_topic(name: str) -> str:
    """The name of a topic that a broker may hold.

    Raises:
        BrokerError: the name can be no topic's.
    """
    if not is_valid_stored_topic(name):
        raise invalid("the topic is blank, too long, or has characters besides letters, digits and the four of '%|_-'")
    return name


def check_group(name: str) -> str:
    """The name of a consumer group.

    Raises:
        BrokerError: the name can be no group's.
    """
    if not is_valid_group(name):
        raise invalid("the group is blank, too long, or has characters besides letters, digits and the four of '%|_-'")
    return name


def check_client_id(client_id: str | None) -> str:
    """What a client calls itself.

    Raises:
        BrokerError: it has no name, or one that is too long.
    """
    if not client_id or len(client_id) > MAX_CLIENT_ID:
        raise invalid(f"the client id is blank, or has more than {MAX_CLIENT_ID} characters")
    return client_id


def check_queue_id(queue_id: int) -> int:
    """The number of a queue.

    Raises:
        BrokerError: it is negative.
    """
    if queue_id < 0:
        raise invalid(f"the queue id {queue_id} is negative")
    return queue_id


def check_queues(*numbers: int) -> None:
    """Numbers of queues that a topic may have.

    Raises:
        BrokerError: one of them is negative or too large.
    """
    for number in numbers:
        if not 0 <= number <= MAX_QUEUES:
            raise invalid(f"{number} queues: a topic has 0 to {MAX_QUEUES}")


def check_permission(permission: int) -> None:
    """A permission that a topic may have.

    Raises:
        BrokerError: it has other bits than those for reading, writing and inheriting.
    """
    if not Permission.is_valid(permission):
        raise invalid(f"the permission {permission} is not made of read (4), write (2) and inherit (1)")
