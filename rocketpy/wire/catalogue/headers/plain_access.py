"""Headers of the accounts of 4.x, which a broker keeps in its file plain_acl.yml. 5.3 has users and rules instead."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, text

__all__ = [
    "CreateAccessConfigRequestHeader",
    "DeleteAccessConfigRequestHeader",
    "GetBrokerAclConfigResponseHeader",
    "UpdateGlobalWhiteAddrsConfigRequestHeader",
]


@header(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG)
class CreateAccessConfigRequestHeader(Header):
    """Create an account, or change it."""

    access_key: str = text()
    secret_key: str | None = text(default=None)
    white_remote_address: str | None = text(default=None)
    admin: bool = boolean(default=False)
    default_topic_perm: str | None = text(default=None)
    default_group_perm: str | None = text(default=None)
    topic_perms: str | None = text(default=None)
    """Joined by commas: "TopicA=DENY,TopicB=PUB|SUB"."""
    group_perms: str | None = text(default=None)

    def __repr__(self) -> str:
        """Without the secret."""
        return f"CreateAccessConfigRequestHeader(access_key={self.access_key!r}, admin={self.admin!r})"


@header(RequestCode.DELETE_ACL_CONFIG)
class DeleteAccessConfigRequestHeader(Header):
    """Delete an account."""

    access_key: str = text()


@header(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG)
class UpdateGlobalWhiteAddrsConfigRequestHeader(Header):
    """Say from which addresses nobody needs an account."""

    global_white_addrs: str = text()
    acl_file_full_path: str | None = text(default=None)


@header(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, answer=True)
class GetBrokerAclConfigResponseHeader(Header):
    """Which version of the accounts a broker has."""

    version: str = text()
    all_acl_file_version: str | None = text(default=None)
    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
