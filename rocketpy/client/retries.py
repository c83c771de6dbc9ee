"""The rule of retries: which failure of which send is tried again, where, and after what pause.

One table and one function, for every way to send. Pure. A send ends with its deadline and with its number of attempts
in any case; this says what happens until then. Plays the part of the catch clauses of sendDefaultImpl and of
onExceptionImpl.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    RequestTimeoutError,
    RocketMQError,
    SystemBusyError,
    TransportError,
)
from rocketpy.remoting.backoff import HalfJitter
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.results import SendResult

__all__ = ["TABLE", "Failure", "NextAttempt", "NotStoredOkError", "SendKind", "Then", "decide", "failure_of"]


class SendKind(Enum):
    """What a send promises, which decides what another attempt may break. A batch is of the kind of its messages."""

    PLAIN = "any queue"
    """We choose: any queue of any broker will do. Frames of `send_many` without sharding keys too."""
    KEYED = "the queue of a sharding key"
    """The sends of one key keep their order."""
    QUEUE = "a queue that was given or selected"
    FRAME = "a frame of send_many with sharding keys"
    """The frames of one queue keep their order."""
    REPLY = "a reply to a request"
    """Any broker that knows the client which asked will do."""
    ONEWAY = "one-way"
    """Nobody asks what becomes of it."""


class Failure(Enum):
    """What a failed attempt means for the message."""

    UNREACHED = "nothing was sent"
    NO_MASTER = "the broker has no master now"
    BUSY = "the broker is busy and has not stored it"
    REFUSED = "the broker cannot store it now, another one may"
    UNKNOWN = "it may be stored"
    WEAK = "it is stored, but not as safely as asked"
    FINAL = "no other attempt would do better"


class NextAttempt(Enum):
    """Where the next attempt goes. `SendCore.choose` finds the queue there, and avoids the brokers that have failed."""

    NO = "nowhere"
    ELSEWHERE = "to another broker, to the same one where there is no other"
    SAME_QUEUE = "to the same queue, at the broker that holds it by then"


class NotStoredOkError(RocketMQError):
    """The message is stored, but not as safely as asked, and the config says to try another broker then."""

    def __init__(self, result: SendResult) -> None:
        super().__init__(f"stored with {result.status.name}")
        self.result = result


_NO, _ELSEWHERE, _SAME = NextAttempt.NO, NextAttempt.ELSEWHERE, NextAttempt.SAME_QUEUE
_SURELY_NOT_STORED: Final = (Failure.UNREACHED, Failure.NO_MASTER, Failure.BUSY, Failure.REFUSED)


def _row(unsent: NextAttempt, unknown: NextAttempt) -> dict[Failure, NextAttempt]:
    row = dict.fromkeys(_SURELY_NOT_STORED, unsent)
    row[Failure.UNKNOWN] = row[Failure.WEAK] = unknown
    row[Failure.FINAL] = _NO
    return row


TABLE: Final[dict[SendKind, dict[Failure, NextAttempt]]] = {
    SendKind.PLAIN: _row(_ELSEWHERE, _ELSEWHERE),
    SendKind.KEYED: _row(_SAME, _NO),
    SendKind.QUEUE: _row(_SAME, _NO),
    SendKind.FRAME: _row(_SAME, _NO),
    SendKind.REPLY: _row(_ELSEWHERE, _ELSEWHERE),
    SendKind.ONEWAY: _row(_ELSEWHERE, _NO),
}
"""What follows which failure. What may be stored already goes again only where any order will do: it may then be stored
twice. No refusal of a one-way send is ever heard."""

_ASK_AGAIN: Final = (Failure.NO_MASTER, Failure.REFUSED)
"""Failures that an old route explains."""
_PAUSE: Final = (Failure.NO_MASTER, Failure.BUSY, Failure.REFUSED)
"""Failures after which the same broker gets a moment. Dials have pauses of their own."""

_moment = HalfJitter(0.02, 1.0)


class Then(NamedTuple):
    """What follows a failed attempt."""

    again: NextAttempt
    """Whether the send is tried again, and at which broker."""
    pause: float
    """Seconds."""
    refresh: bool
    """Whether to ask for the route first."""


def failure_of(error: BaseException, codes: Collection[int]) -> Failure:
    """What an error means for the message.

    Args:
        error: what an attempt came to.
        codes: answers of a broker after which another one is tried.
    """
    if isinstance(error, NotStoredOkError):
        return Failure.WEAK
    if isinstance(error, BrokerUnreachableError):
        return Failure.NO_MASTER
    if isinstance(error, BrokerError):
        return _refusal(error, codes)
    if isinstance(error, TransportError | RequestTimeoutError):
        return Failure.UNREACHED if error.nothing_sent else Failure.UNKNOWN
    return Failure.FINAL


def _refusal(error: BrokerError, codes: Collection[int]) -> Failure:
    if error.code not in codes and not error.retriable:
        return Failure.FINAL
    if isinstance(error, SystemBusyError):
        return Failure.BUSY
    # A broker says SYSTEM_ERROR also when something broke while it was storing.
    return Failure.UNKNOWN if error.code == ResponseCode.SYSTEM_ERROR else Failure.REFUSED


def decide(kind: SendKind, error: BaseException, *, failures: int, others: bool, codes: Collection[int]) -> Then | None:
    """What follows a failed attempt; None when it was the last.

    Args:
        kind: of the send.
        error: what the attempt came to.
        failures: how many attempts have failed, this one too.
        others: whether there is a broker that could take the message and has not failed in this send.
        codes: answers of a broker after which another one is tried.
    """
    failure = failure_of(error, codes)
    again = TABLE[kind][failure]
    if again is _NO:
        return None
    stays = again is _SAME or not others
    if stays and kind is SendKind.REPLY and failure is Failure.UNKNOWN:
        return None  # it was pushed, or the broker does not know the client which asked
    pause = _moment.after(failures) if stays and failure in _PAUSE else 0.0
    return Then(again, pause, stays and failure in _ASK_AGAIN)
