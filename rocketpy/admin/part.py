"""Part: what the parts of Admin have in common, such as `admin.topics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from rocketpy.errors import ConfigError
from rocketpy.wire.json_body import Body

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers

__all__ = ["Part", "changed", "check_texts", "checked_attributes"]

B = TypeVar("B", bound=Body)
T = TypeVar("T")


class Part:
    """One part of an Admin.

    Args:
        usable: returns the servers, or raises an error if the Admin is not open.
    """

    __slots__ = ("_usable",)

    def __init__(self, usable: Callable[[], Servers]) -> None:
        self._usable = usable

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<{type(self).__name__} of an Admin>"


def changed(body: B, **changes: Any) -> B:
    """Return a copy of a body with some values changed."""
    return cast("B", attrs.evolve(cast("Any", body), **changes))


def checked_attributes(attributes: Mapping[str, T] | None) -> Mapping[str, T]:
    """Return attributes that were passed to a call; none for None.

    Raises:
        ConfigError: this is no mapping.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise ConfigError(f"attributes must be a mapping of names to texts, not {attributes!r:.100}")
    return attributes or {}


def check_texts(**values: object) -> None:
    """Check arguments that must be non-empty text.

    Raises:
        ConfigError: one of them is not.
    """
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{name} must be non-empty text, not {value!r:.100}")
