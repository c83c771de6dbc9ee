"""Properties of half messages, a run at a time, byte for byte as `HalfStage` writes them.

What is usual is added to the text as it was sent. A text that the stage would write in another way, or with properties
that ask for more, is left to the stage. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocketpy.message import PropertyName
from rocketpy.wire.properties import plain_pairs

__all__ = ["HalfTexts"]

_PREPARED = PropertyName.TRANSACTION_PREPARED.encode()
_UNIQUE_KEY = PropertyName.UNIQUE_KEY.encode()
_ADDED = "\x02".join(
    (
        f"{PropertyName.TRANSACTION_ID}\x01%b",
        f"{PropertyName.REAL_TOPIC}\x01%b",
        f"{PropertyName.REAL_QUEUE_ID}\x01%d\x02",
    )
).encode()


class HalfTexts:
    """Makes the stored properties of half messages.

    Args:
        watched: the properties that stages of the put pipeline look at.
    """

    def __init__(self, watched: Iterable[str]) -> None:
        self._watched = {name.encode() for name in watched} - {_PREPARED}

    def stored(
        self, texts: Sequence[bytes], added: bytes, topic: bytes, queue_ids: Sequence[int]
    ) -> list[bytes] | None:
        """The stored properties of half messages.

        Args:
            texts: the properties as they were sent, each with its last separator.
            added: what the broker adds to each.
            topic: the real topic of all of them.
            queue_ids: the real queue of each.

        Returns:
            None unless all of them are usual half messages.
        """
        stored = []
        for text, queue_id in zip(texts, queue_ids, strict=True):
            found = plain_pairs(text)
            if found is None or found.get(_PREPARED) != b"true" or _UNIQUE_KEY not in found:
                return None
            if not self._watched.isdisjoint(found):
                return None
            stored.append(text + added + _ADDED % (found[_UNIQUE_KEY], topic, queue_id))
        return stored
