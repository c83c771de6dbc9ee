"""The hook that signs every request of a client. It comes last, for it signs what other hooks have put in.

Plays the part of AclClientRPCHook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.security.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, content_of, sign

if TYPE_CHECKING:
    from rocketpy.security.credentials import Credentials
    from rocketpy.wire.command import RemotingCommand

__all__ = ["SigningHook"]


class SigningHook:
    """Signs with one pair of keys."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def before_request(self, address: str, command: RemotingCommand) -> None:
        """Put the access key and the signature into the fields."""
        fields = command.ext_fields
        fields[ACCESS_KEY] = self._credentials.access_key
        if self._credentials.security_token is not None:
            fields[SECURITY_TOKEN] = self._credentials.security_token
        fields[SIGNATURE] = sign(content_of(fields, command.body), self._credentials.secret_key)

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        """Answers are not signed."""
