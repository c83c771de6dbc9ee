"""The error for name servers that do not answer: what each of them did, and what to check."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from rocketpy.errors import (
    BrokerError,
    ConnectError,
    NameServerUnreachableError,
    RequestCodeNotSupportedError,
    RequestTimeoutError,
    rounded,
)
from rocketpy.logs import quote
from rocketpy.wire.frame import SPEAKS_HTTP

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["bare", "check_address", "unreachable"]


def unreachable(
    doing: str, tried: Sequence[tuple[str, Exception]], *, changes: bool = False
) -> NameServerUnreachableError:
    """The error for a request that name servers did not answer.

    Args:
        doing: what was asked for, such as "asking for the route of T".
        tried: addresses and their errors, in order.
        changes: whether the request may have changed something although no answer came.
    """
    errors: dict[str, Exception] = {}
    for address, error in tried:
        # An address that was tried again failed in much the same way; but what kind of server it is counts most.
        if not _is_foreign(errors.get(address)):
            errors[address] = error
    what = "; ".join(f"{address}: {_reason(error, changes=changes)}" for address, error in errors.items())
    return NameServerUnreachableError(
        f"no name server answered when {doing} ({what}); {_advice(list(errors.values()))}",
        topic="",
        tried=tuple(errors),
    )


def check_address(count: int = 1) -> str:
    """The advice for an address where something else than a name server may be."""
    if count == 1:
        return "check that this is the address of a name server (port 9876 as a rule)"
    return "check that these are the addresses of name servers (port 9876 as a rule)"


def bare(error: Exception) -> Exception:
    """A copy without traceback and causes, which say no more than the text of the error that names all of them."""
    dial = error.__cause__ if isinstance(error, ConnectError) else None  # the pool's own error tells of its pauses, too
    return copy.copy(dial if isinstance(dial, ConnectError) else error)


def _advice(errors: Sequence[Exception]) -> str:
    if any(map(_is_foreign, errors)):
        return check_address(len(errors))
    if any(isinstance(error, RequestTimeoutError) for error in errors):
        return (
            check_address(len(errors)) + f", and allow more time if {'it is' if len(errors) == 1 else 'they are'} slow"
        )
    return f"check that {'it is' if len(errors) == 1 else 'they are'} running and reachable from this host"


def _is_foreign(error: Exception | None) -> bool:
    """Whether the peer is another kind of server."""
    return isinstance(error, RequestCodeNotSupportedError) or SPEAKS_HTTP in str(error)


def _reason(error: Exception, *, changes: bool) -> str:
    if isinstance(error, RequestCodeNotSupportedError):
        return f"this is not a name server (perhaps a broker): it answered {quote(error.remark.strip())!r}"
    if SPEAKS_HTTP in str(error):
        return "this is an HTTP server, not a name server"
    if isinstance(error, ConnectError):
        return error.reason  # without the address, which stands before it, and without the pool's pauses
    if isinstance(error, RequestTimeoutError) and not changes:
        return f"no answer within {rounded(error.timeout)} s" if error.timeout else "no answer in time"
    return f"busy ({error.remark})" if isinstance(error, BrokerError) else str(error)
