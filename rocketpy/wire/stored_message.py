"""StoredMessage: the MessageExt of a pull answer, which unpacks its body and takes its properties apart on first use.

Made by `message_codec` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.message import MessageExt, PropertyName
from rocketpy.message.accessors import split_keys
from rocketpy.wire.properties import decode_properties, find_property

if TYPE_CHECKING:
    from functools import partial

__all__ = ["StoredMessage"]

_TAGS = PropertyName.TAGS.encode()
_KEYS = PropertyName.KEYS.encode()
_UNIQUE_KEY = PropertyName.UNIQUE_KEY.encode()


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
    def properties(self) -> dict[str, str]:
        """Everything that travels beside the body, under the names of the wire."""
        packed = self._packed_properties
        if packed is not None:
            self._properties = decode_properties(packed.decode("utf-8", "replace"))
            self._packed_properties = None
        return self._properties

    @property
    def property_bytes(self) -> bytes | None:
        """The properties as stored, for `find_property`; None once `properties` has been used."""
        return self._packed_properties

    def _find(self, name: str, packed_name: bytes) -> str | None:
        packed = self._packed_properties
        if packed is None:
            return self._properties.get(name)
        value = find_property(packed, packed_name)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def tags(self) -> str | None:
        """The tag, for filtering."""
        return self._find(PropertyName.TAGS, _TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which the broker finds the message."""
        return split_keys(self._find(PropertyName.KEYS, _KEYS))

    @property
    def message_id(self) -> str:
        """The id that the producer gave; the offset id for messages without one."""
        return self._find(PropertyName.UNIQUE_KEY, _UNIQUE_KEY) or self.offset_message_id
