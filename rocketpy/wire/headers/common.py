"""Fields that many headers inherit: where a request came from and which queue it is about.

A client of 5.x names the broker it means (`bname`); `ns` and `nsd` travel with namespaces, `lo` and `oway` between
servers of static topics. Plays the part of RpcRequestHeader, TopicRequestHeader and TopicQueueRequestHeader.
"""

from __future__ import annotations

from rocketpy.wire.fields import Header, boolean, header, text

__all__ = ["RpcHeader", "TopicHeader", "TopicQueueHeader"]


@header()
class RpcHeader(Header):
    """What any request may carry."""

    ns: str | None = text(default=None)
    """Namespace of topic and group."""
    nsd: bool | None = boolean(default=None)
    """Whether topic and group are within `ns`."""
    bname: str | None = text(default=None)
    """Name of the broker that is meant."""
    oway: bool | None = boolean(default=None)


@header()
class TopicHeader(RpcHeader):
    """What requests about a topic carry."""

    lo: bool | None = boolean(default=None)
    """Whether the queue id is a logical one of a static topic."""


@header()
class TopicQueueHeader(TopicHeader):
    """What requests about a queue carry."""
