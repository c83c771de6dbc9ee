"""RemotingCommand: one request or one answer, with its header in plain fields.

Plays the part of RemotingCommand. It knows no bytes: `serialize` turns it into a frame and back, `fields` turns
custom headers into `ext_fields` and back.
"""

from __future__ import annotations

import attrs

from rocketpy.wire.codes import (
    CURRENT_VERSION,
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    LanguageCode,
    SerializeType,
    request_name,
    response_name,
)

__all__ = ["RemotingCommand"]

_SECRETS = frozenset({"secretKey", "SecurityToken", "Signature"})


def _without_secrets(fields: dict[str, str]) -> str:
    return repr({name: "..." if name in _SECRETS else value for name, value in fields.items()})


def _size(body: bytes) -> str:
    return f"<{len(body)} bytes>"


@attrs.define(slots=True)
class RemotingCommand:
    """One request or answer of the remoting protocol.

    Requests of the two directions of a connection count their opaques apart: the response bit of `flag` tells them
    from each other.
    """

    code: int
    """RequestCode of a request, ResponseCode of an answer."""
    ext_fields: dict[str, str] = attrs.field(factory=dict, repr=_without_secrets)
    """The custom header as it travels: everything is text."""
    body: bytes = attrs.field(default=b"", repr=_size)
    opaque: int = 0
    """Correlates an answer with its request, on one connection (int32)."""
    flag: int = 0
    remark: str | None = None
    """What a server says in words; None when it said nothing."""
    language: LanguageCode | None = LanguageCode.PYTHON
    """None when the peer named one that we do not know."""
    version: int = CURRENT_VERSION
    serialize_type: SerializeType = SerializeType.JSON

    @classmethod
    def oneway(cls, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        """A request that wants no answer."""
        return cls(code, ext_fields or {}, body, flag=ONEWAY_FLAG)

    def answer(
        self,
        code: int = 0,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """An answer to this request: same opaque, same header encoding."""
        return RemotingCommand(
            code,
            ext_fields or {},
            body,
            self.opaque,
            RESPONSE_FLAG,
            remark,
            serialize_type=self.serialize_type,
        )

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no answer."""
        return bool(self.flag & ONEWAY_FLAG)

    def __str__(self) -> str:
        """Short form for logs: no body, no fields."""
        if self.is_response:
            return f"answer {response_name(self.code)} to {self.opaque}"
        return f"{'oneway ' if self.is_oneway else ''}request {request_name(self.code)} {self.opaque}"
