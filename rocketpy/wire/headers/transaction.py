"""Headers of transactions: how one ends, a broker's question how it ended, and making the broker ask once more."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import RpcHeader

__all__ = [
    "CheckTransactionStateRequestHeader",
    "EndTransactionRequestHeader",
    "ResumeCheckHalfMessageRequestHeader",
]


@header(RequestCode.END_TRANSACTION)
class EndTransactionRequestHeader(RpcHeader):
    """A producer commits a transaction, rolls it back, or does not know yet."""

    topic: str | None = text(default=None)
    producer_group: str = text()
    tran_state_table_offset: int = int64()
    commit_log_offset: int = int64()
    commit_or_rollback: int = int32()
    """The two bits of the flag word: 8 commit, 12 rollback, 0 not known."""
    from_transaction_check: bool | None = boolean(default=False)
    """Whether the broker had asked."""
    msg_id: str = text()
    transaction_id: str | None = text(default=None)


@header(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionStateRequestHeader(RpcHeader):
    """A broker asks how a transaction ended; the prepared message is the body."""

    topic: str | None = text(default=None)
    tran_state_table_offset: int = int64()
    commit_log_offset: int = int64()
    msg_id: str | None = text(default=None)
    transaction_id: str | None = text(default=None)
    offset_msg_id: str | None = text(default=None)


@header(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessageRequestHeader(Header):
    """Have the broker ask again about a transaction that it had given up."""

    topic: str | None = text(default=None)
    msg_id: str | None = text(default=None)
