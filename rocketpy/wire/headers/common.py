"""Fields that many headers inherit: where a request came from and which queue it is about.

A client of 5.x names the broker it means (`bname`); `ns` and `nsd` travel with namespaces, `lo` and `oway` between
servers of static topics. Plays the part of RpcRequestHeader, TopicRequestHeader and TopicQueueRequestHeader.
"""

from __future__ import annotations

from typing import Final

from rocketpy.wire.fields import Header, boolean, header, text

__all__ = ["EXTRA_FIELDS", "RpcHeader", "TopicHeader", "TopicQueueHeader"]

EXTRA_FIELDS: Final = {
    "AccessKey": "who signs the request",
    "Signature": "base64 of an HMAC over all other fields and the body",
    "SecurityToken": "proves that a temporary access key is still good",
    "ReqT": '"0" from clients that a proxy serves as streams',
    "__ZONE_NAME": "the zone of the client, whose brokers a name server then answers first",
    "__ZONE_MODE": '"true" where zones count',
}
"""Fields that stand beside those of the header: put there by hooks, on any request."""


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
