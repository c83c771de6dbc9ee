"""The signature of a request, the same for the accounts of 4.x and the users of 5.x.

What is signed are the values (not the names) of all extension fields but the signature, in the order of their names
and with nothing between them, and then the body. It proves who asks; it hides nothing. The request code is not covered
and there is no time in it: anyone who can read the connection can send a request again, or its fields under another
code. Plays the part of AclUtils and AclSigner.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

__all__ = ["ACCESS_KEY", "SECURITY_TOKEN", "SIGNATURE", "content_of", "sign"]

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
"""Names of the extension fields."""


def content_of(fields: Mapping[str, str], body: bytes = b"") -> bytes:
    """What a request's signature is made of.

    Args:
        fields: all extension fields, with or without the signature.
        body: the body of the request.
    """
    values = [fields[name] for name in sorted(fields, key=_java_order) if name != SIGNATURE]
    return "".join(values).encode("utf-8", "replace") + body


def sign(content: bytes, secret_key: str) -> str:
    """HMAC-SHA1 as base64."""
    return b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()


def _java_order(name: str) -> bytes:
    """Java compares text by its UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")
