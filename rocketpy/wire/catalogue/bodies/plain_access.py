"""The accounts of a 4.x broker, which it keeps in its file plain_acl.yml."""

from __future__ import annotations

from rocketpy.wire.json_body import Body, body

__all__ = ["GetBrokerClusterAclConfigResponseBody", "PlainAccessConfig"]


@body
class PlainAccessConfig(Body):
    """One account; rights as "DENY", "PUB", "SUB" or "PUB|SUB", by topic as "Orders=PUB"."""

    access_key: str | None = None
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        """Without the secret."""
        return f"PlainAccessConfig(access_key={self.access_key!r}, admin={self.admin!r})"


@body
class GetBrokerClusterAclConfigResponseBody(Body):
    """All accounts, and the addresses that need none."""

    global_white_addrs: list[str] | None = None
    plain_access_configs: list[PlainAccessConfig] | None = None
