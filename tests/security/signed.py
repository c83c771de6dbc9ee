"""Checks signatures of requests, as a server with access control does."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from rocketpy.security.signature import SIGNATURE, content_of, sign


def is_signed(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether a request has the right signature for a secret."""
    expected = sign(content_of(fields, body), secret_key)
    return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode("utf-8", "replace"))
