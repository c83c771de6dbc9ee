"""Hypothesis strategies and the oracle that every reader of foreign bytes has to satisfy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import LanguageCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame, FrameDecoder
from tests.pace import slowness
from tests.steps import without_full_collections

T = TypeVar("T")

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
NAME = st.text("abcdefghijXYZ_019", min_size=1, max_size=12)


@st.composite
def commands(draw: st.DrawFn) -> RemotingCommand:
    """Any command that the protocol can carry."""
    kind = draw(st.sampled_from(SerializeType))
    binary = kind == SerializeType.ROCKETMQ
    # No bytes are null in a binary header, so that an empty text does not come back.
    text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30) if binary else TEXT
    return RemotingCommand(
        draw(st.integers(-(2**15), 2**15 - 1) if binary else INT32),
        draw(st.dictionaries(text, text, max_size=8)),
        draw(st.binary(max_size=200)),
        draw(INT32),
        draw(INT32),
        draw(st.none() | text),
        draw(st.sampled_from(LanguageCode)),
        draw(st.integers(0, 2**15 - 1) if binary else INT32),
        kind,
    )


def cut(data: bytes) -> Frame:
    """The one frame in these bytes."""
    decoder = FrameDecoder()
    decoder.receive_data(data)
    (frame,) = decoder.frames()
    assert decoder.buffered == 0
    return frame


def read(reader: Callable[[], T]) -> T | None:
    """What a reader makes of foreign bytes: a value, or None for its one declared error. Anything else is a bug.

    No single input of the sizes that tests use may take long either.
    """
    start = time.process_time()
    try:
        with without_full_collections():
            return reader()
    except RemoteProtocolError:
        return None
    finally:
        seconds = time.process_time() - start
        assert seconds < 1 or seconds / slowness() < 1, seconds
