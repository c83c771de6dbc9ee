"""Hypothesis strategies that several test packages share: names, texts, messages, records.

Strategies are made once and kept: to make them again for each example takes longer than to draw from them.
"""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from rocketpy.message import RESERVED_PROPERTIES, Message
from rocketpy.wire.hosts import pack_host
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
PORTS = st.integers(0, 0xFFFF)

NAME_LETTERS = "abcxyzABCXYZ0189_-%|"


@functools.cache
def names(longest: int = 127) -> st.SearchStrategy[str]:
    """Names of topics and groups as RocketMQ allows them."""
    return st.text(NAME_LETTERS, min_size=1, max_size=longest)


@functools.cache
def texts(*, max_size: int = 20) -> st.SearchStrategy[str]:
    """Text that a property can carry: valid Unicode, not blank, without the separators."""
    letters = st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",))
    return st.text(letters, min_size=1, max_size=max_size).filter(lambda text: not text.isspace())


@functools.cache
def property_maps(*, max_size: int = 6) -> st.SearchStrategy[dict[str, str]]:
    """Properties under any names."""
    return st.dictionaries(texts(), texts(), max_size=max_size)


@functools.cache
def user_properties(*, max_size: int = 6) -> st.SearchStrategy[dict[str, str]]:
    """Properties that a user may set."""
    return st.dictionaries(texts().filter(lambda name: name not in RESERVED_PROPERTIES), texts(), max_size=max_size)


@functools.cache
def ipv4() -> st.SearchStrategy[str]:
    return st.ip_addresses(v=4).map(str)


@functools.cache
def ipv6() -> st.SearchStrategy[str]:
    return st.ip_addresses(v=6).map(str)


@functools.cache
def bodies(*, max_size: int = 200) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=1, max_size=max_size)


KEYS = st.lists(texts().filter(lambda key: key.split() == [key]), max_size=3)
TAGS = st.none() | texts()


@st.composite
def messages(draw: st.DrawFn, topic: str | None = None) -> Message:
    """Messages that a user can make."""
    return Message(
        topic or draw(names()),
        draw(bodies()),
        tags=draw(TAGS),
        keys=draw(KEYS),
        properties=draw(user_properties(max_size=3)),
    )


BOOLEANS = st.booleans()
RECORD_BODIES = st.binary(max_size=200)
COMPRESSION = st.sampled_from([0, 2, 4, 8, 12])


@st.composite
def record_arguments(draw: st.DrawFn, *, longest_topic: int = 255) -> dict[str, Any]:
    """Arguments of `encode_record`, with hosts of both kinds and topics of both versions."""
    born_v6, store_v6 = draw(BOOLEANS), draw(BOOLEANS)
    return {
        "topic": draw(names(longest_topic)).encode(),
        "body": draw(RECORD_BODIES),
        "properties": encode_properties(draw(property_maps())).encode(),
        "queue_id": draw(INT32),
        "flag": draw(INT32),
        "queue_offset": draw(INT64),
        "physical_offset": draw(INT64),
        "sys_flag": BORN_HOST_V6 * born_v6 | STORE_HOST_V6 * store_v6 | draw(COMPRESSION),
        "born_timestamp": draw(INT64),
        "born_host": pack_host(draw(ipv6() if born_v6 else ipv4()), draw(PORTS)),
        "store_timestamp": draw(INT64),
        "store_host": pack_host(draw(ipv6() if store_v6 else ipv4()), draw(PORTS)),
        "reconsume_times": draw(INT32),
        "prepared_transaction_offset": draw(INT64),
    }
