"""An access key and the secret that belongs to it. Plays the part of SessionCredentials."""

from __future__ import annotations

import attrs

__all__ = ["Credentials"]


@attrs.frozen
class Credentials:
    """What a client signs with. Secrets are never shown."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)
    """Goes along with a temporary access key."""
