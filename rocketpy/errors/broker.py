"""What a server answers when it does not do what was asked: a class for each well-known code."""

from __future__ import annotations

import re
from typing import ClassVar

from rocketpy.errors.root import RocketMQError
from rocketpy.logs import quote

__all__ = [
    "BrokerError",
    "FilterRefusedError",
    "FlowControlError",
    "IllegalOperationError",
    "InvalidParameterError",
    "MessageIllegalError",
    "NoPermissionError",
    "QueryNotFoundError",
    "RequestCodeNotSupportedError",
    "ServiceNotAvailableError",
    "SubscriptionGroupNotExistError",
    "SystemBusyError",
    "TopicNotExistError",
]

_PARSE_FAILED = 23
_ADVICE = ": set enablePropertyFilter=true"
_POSITION = re.compile(r"\bat character ([0-9]{1,9})\b")


class BrokerError(RocketMQError):
    """A server answered with a code other than success.

    Attributes:
        code: The response code.
        remark: What the server said, "" when it said nothing.
        address: The server as "host:port", or None.
    """

    well_known_codes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, code: int, remark: str | None = None, *, address: str | None = None, doing: str = "") -> None:
        self.code = code
        self.remark = remark or ""
        self.address = address
        where = f" by {address}" if address else ""
        what = f"{doing} refused" if doing else "request refused"
        super().__init__(f"{what}{where} with code {code}: {quote(self.remark) or 'no remark'}")

    @staticmethod
    def for_code(code: int, remark: str | None = None, *, address: str | None = None, doing: str = "") -> BrokerError:
        """The error of the class that belongs to `code`, BrokerError itself for codes without one."""
        return _CLASS_OF_CODE.get(code, BrokerError)(code, remark, address=address, doing=doing)


class SystemBusyError(BrokerError):
    """The server is overloaded (SYSTEM_BUSY, or FLOW_CONTROL): wait a little, or try another broker."""

    retriable = True
    well_known_codes = (2,)


class FlowControlError(SystemBusyError):
    """The broker's flow control asks to slow down."""

    well_known_codes = (215,)


class RequestCodeNotSupportedError(BrokerError):
    """The server does not know this request."""

    well_known_codes = (3,)


class MessageIllegalError(BrokerError):
    """The broker refuses the message: its size or its properties."""

    well_known_codes = (13,)


class ServiceNotAvailableError(BrokerError):
    """The broker cannot store now: disk full, shutting down, or a slave."""

    retriable = True
    well_known_codes = (14,)


class NoPermissionError(BrokerError):
    """The topic, group or key may not be used in this way."""

    well_known_codes = (16,)


class TopicNotExistError(BrokerError):
    """The broker does not hold the topic."""

    retriable = True
    well_known_codes = (17,)


class QueryNotFoundError(BrokerError):
    """What was asked for is not there."""

    well_known_codes = (22,)


class SubscriptionGroupNotExistError(BrokerError):
    """The broker does not know the consumer group."""

    well_known_codes = (26,)


class InvalidParameterError(BrokerError):
    """A field of the request is not acceptable."""

    well_known_codes = (29,)


class IllegalOperationError(BrokerError):
    """The request cannot be carried out, or no longer: for instance, the message to be recalled is already due."""

    well_known_codes = (604,)


class FilterRefusedError(BrokerError):
    """A broker refuses the SQL92 expression of a subscription, and so delivers no messages of the topic.

    Attributes:
        topic: The topic of the subscription.
        expression: The expression that was refused.
        position: The character where the mistake is, counted from 1; None when the broker does not say, or when the
            broker does not filter by SQL92 at all.
    """

    def __init__(self, code: int, remark: str, *, address: str, topic: str, expression: str) -> None:
        found = _POSITION.search(remark)
        self.topic = topic
        self.expression = expression
        self.position = int(found[1]) if found else None
        # Our own broker gives the same advice as the remedy below.
        said = remark if code == _PARSE_FAILED else remark.partition(_ADVICE)[0]
        super().__init__(code, said, address=address, doing=f'the subscription to {topic} by "{quote(expression)}"')
        self.remark = remark
        remedy = "correct the expression" if code == _PARSE_FAILED else "set enablePropertyFilter=true there"
        self.args = (f"{self.args[0]}: {remedy}, or subscribe by tags",)


def _descendants(kind: type[BrokerError]) -> list[type[BrokerError]]:
    found = [kind]
    for child in kind.__subclasses__():
        found.extend(_descendants(child))
    return found


_CLASS_OF_CODE = {code: kind for kind in _descendants(BrokerError) for code in kind.well_known_codes}
