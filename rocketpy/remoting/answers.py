"""Answers to requests: in place of an exception, and as frames. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from rocketpy.logs import get_logger, quote
from rocketpy.seams import random_source
from rocketpy.wire.codes import RESPONSE_FLAG, ResponseCode
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits
from rocketpy.wire.serialize import encode_command

if TYPE_CHECKING:
    from rocketpy.wire.command import RemotingCommand

__all__ = ["answer_for_error", "answer_frame"]

_logger = get_logger(__name__)


def answer_for_error(request: RemotingCommand, exc: Exception, address: str) -> RemotingCommand:
    """The answer that takes the place of an exception.

    Expected errors speak for themselves. Of a bug the peer learns a number, under which the log tells the rest: an
    error's text may hold paths and names that are none of its business.
    """
    if isinstance(exc, BrokerError):
        return request.answer(exc.code, exc.remark or None)
    if isinstance(exc, RemoteProtocolError):
        return request.answer(ResponseCode.SYSTEM_ERROR, str(exc))
    number = f"{random_source().getrandbits(32):08x}"
    _logger.error("error %s: %s of %s failed", number, quote(str(request)), quote(address), exc_info=exc)
    return request.answer(ResponseCode.SYSTEM_ERROR, f"internal error {number}: the log of the server has the details")


def answer_frame(
    request: RemotingCommand, answer: RemotingCommand, address: str, limits: WireLimits = DEFAULT_LIMITS
) -> bytes:
    """Encode an answer, with the opaque and the header encoding of its request."""
    answer.opaque = request.opaque
    answer.flag |= RESPONSE_FLAG
    answer.serialize_type = request.serialize_type
    try:
        return encode_command(answer, limits=limits)
    except LocalProtocolError:
        _logger.exception("the answer to %s of %s cannot be encoded", request, address)
        remark = "the answer cannot be encoded: the log of the process that answers has the details"
        return encode_command(request.answer(ResponseCode.SYSTEM_ERROR, remark))
