"""Headers of users and their rights (5.x); users and rules are in the bodies."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, header, text

__all__ = [
    "CreateAclRequestHeader",
    "CreateUserRequestHeader",
    "DeleteAclRequestHeader",
    "DeleteUserRequestHeader",
    "GetAclRequestHeader",
    "GetUserRequestHeader",
    "ListAclsRequestHeader",
    "ListUsersRequestHeader",
    "UpdateAclRequestHeader",
    "UpdateUserRequestHeader",
]


@header(RequestCode.AUTH_CREATE_USER)
class CreateUserRequestHeader(Header):
    """Create a user."""

    username: str | None = text(default=None)


@header(RequestCode.AUTH_UPDATE_USER)
class UpdateUserRequestHeader(Header):
    """Change a user's password, kind or status."""

    username: str | None = text(default=None)


@header(RequestCode.AUTH_DELETE_USER)
class DeleteUserRequestHeader(Header):
    """Delete a user."""

    username: str | None = text(default=None)


@header(RequestCode.AUTH_GET_USER)
class GetUserRequestHeader(Header):
    """Ask for one user."""

    username: str | None = text(default=None)


@header(RequestCode.AUTH_LIST_USER)
class ListUsersRequestHeader(Header):
    """Ask for the users whose names contain a text."""

    filter: str | None = text(default=None)


@header(RequestCode.AUTH_CREATE_ACL)
class CreateAclRequestHeader(Header):
    """Give a user rights."""

    subject: str | None = text(default=None)
    """"User:" and the name."""


@header(RequestCode.AUTH_UPDATE_ACL)
class UpdateAclRequestHeader(Header):
    """Change the rights of a user."""

    subject: str | None = text(default=None)


@header(RequestCode.AUTH_DELETE_ACL)
class DeleteAclRequestHeader(Header):
    """Take rights from a user: all of them, or those to one resource."""

    subject: str | None = text(default=None)
    policy_type: str | None = text(default=None)
    resource: str | None = text(default=None)


@header(RequestCode.AUTH_GET_ACL)
class GetAclRequestHeader(Header):
    """Ask for the rights of one user."""

    subject: str | None = text(default=None)


@header(RequestCode.AUTH_LIST_ACL)
class ListAclsRequestHeader(Header):
    """Ask for the rights of all users whom, and to all resources which, contain a text."""

    subject_filter: str | None = text(default=None)
    resource_filter: str | None = text(default=None)
