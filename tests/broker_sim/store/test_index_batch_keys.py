"""Keys of a batch are hashed column by column where its messages are alike: with the same result as one by one."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy_broker_sim.store.index import keys as index_keys
from rocketpy_broker_sim.store.index.batch_keys import FEW, alike_hashes, by_length
from rocketpy_broker_sim.store.index.keys import KeyHashes

ADDED = b"WAIT\x01true\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01C\x02"
UNIQUE = b"UNIQ_KEY\x017F00000100002A139A55%012X\x02"


def check(texts: list[bytes], *, alike: bool | None = None, topic: str = "Orders") -> None:
    """Compare a batch with its messages one by one; where it is known, also whether columns could be used."""
    hashes, positions = KeyHashes(), array("q", [1000 + 7 * number for number in range(len(texts))])
    right = [(each, at, 9) for text, at in zip(texts, positions, strict=True) for each in hashes.of(topic, text)]
    assert list(KeyHashes().of_batch(topic, texts, positions, 9)) == right
    if alike is not None:
        assert [alike_hashes(5, [texts[n] for n in numbers]) is not None for numbers in by_length(texts)] == [alike]


@pytest.mark.parametrize("count", [1, 2, FEW, FEW + 1, 64, 1000])
def test_messages_of_one_shape(count: int):
    texts = [b"WAIT\x01true\x02KEYS\x01order-%06d\x02" % n + UNIQUE % n + ADDED for n in range(count)]
    check(texts, alike=True)
    check(texts[::-1], alike=True, topic="Größe")


def test_lengths_may_differ():
    texts = [b"KEYS\x01order-%d\x02" % n + UNIQUE % n + ADDED for n in range(90, 1100)]
    check(texts)
    assert sorted(map(len, by_length(texts))) == [10, 100, 900]


def test_no_loop_over_messages_is_taken_when_they_are_alike(monkeypatch: pytest.MonkeyPatch):
    texts = [b"KEYS\x01order-%06d\x02" % n + UNIQUE % n for n in range(100)]
    positions = array("q", range(100))
    right = list(KeyHashes().of_batch("T", texts, positions, 1))
    monkeypatch.setattr(
        index_keys, "_TopicHashes", type("No", (), {"begun": 84 * 31 + 35, "__init__": lambda *_: None})
    )
    assert list(KeyHashes().of_batch("T", texts, positions, 1)) == right


@pytest.mark.parametrize(
    ("form", "alike"),
    [
        (b"KEYS\x01%04d\x02", True),
        (b"KEYS\x01same\x02A\x01%04d\x02", True),
        (b"KEYS\x01\x02A\x01%04d\x02", True),
        (b"UNIQ_KEY\x01%04d\x02KEYS\x01\x02", True),
        (b"A\x01%04d\x02", True),
        (b"A\x01KEYS\x01%04d\x02", True),
        (b"A\x01a b\x02KEYS\x01%04d\x02", True),
        (b"KEYS\x02A\x01B\x01%04d\x02", True),
        (b"A\x01b\x02KEYS\x01%04d\x02A\x01b\x02", True),
        (b"KEYS\x01a %04d\x02", False),
        (b"KEYS\x01%04d", False),
        (b"KEYS\x01%04d\x02KEYS\x01last\x02", False),
        (b"UNIQ_KEY\x01%04d\x02UNIQ_KEY\x01\x02", False),
        (b"N%04d\x01v\x02", False),
        ("KEYS\x01ü%04d\x02".encode(), False),
    ],
)
def test_other_shapes(form: bytes, alike: bool):
    check([form % n for n in range(40)], alike=alike)


def test_separators_in_other_places_are_another_shape():
    check([b"A\x01b\x02KEYS\x01cde\x02"] * 20 + [b"A\x01bcd\x02KEYS\x01e\x02"] * 20, alike=False)
    check([b"KEYS\x01a\x02B\x01c\x02"] * 20 + [b"KEYS\x01abcde\x02"] * 20, alike=False)
    check([b""] * 20, alike=True)


@pytest.mark.parametrize("topic", ["Orders", "Shipments"])
def test_keys_that_differ_from_the_first_character_on_follow_a_hash_of_either_sign(topic: str):
    check([b"KEYS\x01%04d\x02" % (n * 7919 % 10_000) for n in range(40)], alike=True, topic=topic)


PROPERTIES = st.dictionaries(
    st.sampled_from(["KEYS", "UNIQ_KEY", "TAGS", "A", "XKEYS"]), st.text("ab1 \x01ü~", max_size=3), max_size=4
)


@given(st.lists(PROPERTIES, max_size=40), st.integers(1, 12))
def test_any_batch_has_the_hashes_of_its_messages(batch: list[dict[str, str]], times: int):
    texts = ["".join(f"{name}\x01{value}\x02" for name, value in each.items()).encode() for each in batch]
    check(texts * times)
    check(texts * times, topic="Shipments")


@given(st.integers(1, 300), st.binary(min_size=300, max_size=300))
def test_keys_of_any_length(length: int, data: bytes):
    text = bytes(33 + byte % 90 for byte in data)
    check([b"KEYS\x01" + bytes([33 + n]) + text[:length] + bytes([33 + n]) + b"\x02" for n in range(20)], alike=True)
