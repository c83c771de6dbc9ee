"""Headers of looking for messages by key or by position."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import TopicHeader

__all__ = [
    "QueryMessageRequestHeader",
    "QueryMessageResponseHeader",
    "ViewMessageRequestHeader",
]


@header(RequestCode.QUERY_MESSAGE)
class QueryMessageRequestHeader(TopicHeader):
    """Look for messages by key."""

    topic: str = text()
    key: str = text()
    max_num: int = int32()
    begin_timestamp: int = int64()
    end_timestamp: int = int64()
    unique_key_query: bool | None = boolean(default=None, name="_UNIQUE_KEY_QUERY")
    """Whether `key` is the unique id that the producer gave the message."""


@header(RequestCode.QUERY_MESSAGE, answer=True)
class QueryMessageResponseHeader(Header):
    """How far the index reaches; the messages are the body."""

    index_last_update_timestamp: int = int64()
    index_last_update_phyoffset: int = int64()


@header(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessageRequestHeader(Header):
    """Ask for the message at a position of the commit log."""

    topic: str | None = text(default=None)
    offset: int = int64()
