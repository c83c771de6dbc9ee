"""Users of a broker and what they may do (5.x)."""

from __future__ import annotations

from rocketpy.wire.json_body import Body, body

__all__ = ["AclInfo", "PolicyEntryInfo", "PolicyInfo", "UserInfo"]


@body
class UserInfo(Body):
    """A user, for creating one and for showing one."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    """"Super" or "Normal"."""
    user_status: str | None = None
    """"enable" or "disable"."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"UserInfo(username={self.username!r}, user_type={self.user_type!r}, user_status={self.user_status!r})"


@body
class PolicyEntryInfo(Body):
    """One rule: what may (or may not) be done to a resource, and from where."""

    resource: str | None = None
    """"Topic:Orders", "Group:CG_*", "Cluster:..", "*"."""
    actions: list[str] | None = None
    """"Pub", "Sub", "Create", "Update", "Delete", "Get", "List", "All", "Any"."""
    source_ips: list[str] | None = None
    decision: str | None = None
    """"Allow" or "Deny"."""


@body
class PolicyInfo(Body):
    """Rules of one kind."""

    policy_type: str | None = None
    """"Custom" or "Default"."""
    entries: list[PolicyEntryInfo] | None = None


@body
class AclInfo(Body):
    """All rules of one subject."""

    subject: str | None = None
    """"User:" and the name."""
    policies: list[PolicyInfo] | None = None
