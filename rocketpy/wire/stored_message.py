"""StoredMessage: the MessageExt of a pull answer, which unpacks its body and takes its properties apart on first use.

Made by `message_codec` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.message import MessageExt
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.sysflag import COMPRESSED, COMPRESSION_TYPE_MASK

if TYPE_CHECKING:
    from functools import partial

__all__ = ["StoredMessage", "body_as_it_is"]


class StoredMessage(MessageExt):
    """A message decoded as far as it was asked for.

    Text that is not valid UTF-8 is read with replacement characters, as Java reads it: one odd message must not stop
    a queue.
    """

    __slots__ = ("_inflate", "_packed_properties")

    _inflate: partial[bytes] | None
    """Unpacks the body, once; None when there is nothing to unpack."""
    _packed_properties: bytes | None
    """The property text as stored; None once it has been taken apart."""

    @property
    def body(self) -> bytes:
        """The payload, unpacked on first use.

        Raises:
            MessageDecodeError: the stored bytes cannot be unpacked.
        """
        if self._inflate is not None:
            self._body = self._inflate()
            self._inflate = None
        return self._body

    @property
    def wire_properties(self) -> dict[str, str]:
        """All properties by their names on the wire, taken apart on first use."""
        packed = self._packed_properties
        if packed is not None:
            self._properties = decode_properties(packed.decode("utf-8", "replace"))
            self._packed_properties = None
        return self._properties


def body_as_it_is(message: MessageExt) -> tuple[bytes, int]:
    """The body of a message, without unpacking it, and the bits of the flag word that say how it is packed.

    One that was unpacked already is not packed any more, and has no such bits.
    """
    # Read once: a listener may unpack the body at any moment, in another thread.
    inflate = message._inflate if isinstance(message, StoredMessage) else None
    if inflate is None:
        return message.body, 0
    packed: bytes = inflate.args[0]
    return packed, message.sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK)
