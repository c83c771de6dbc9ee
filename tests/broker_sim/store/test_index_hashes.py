"""Hashes of unique ids are put together from what topic, producer and message add: they are Java's all the same."""

from __future__ import annotations

import pytest

from rocketpy.wire.java_hash import string_hash
from rocketpy_broker_sim.store.index import keys as index_keys
from rocketpy_broker_sim.store.index.batch_keys import absolute
from rocketpy_broker_sim.store.index.keys import KeyHashes, hash_of
from tests.tables import Table
from tests.vectors import java_cases, vector

TOPICS = ["T", "Orders", "%RETRY%group", "Größe", "x" * 127]


def test_what_an_index_keeps_of_a_text_is_java_s_and_never_negative() -> None:
    with Table() as table:
        for text, expected in [*java_cases("index_key_hash"), *vector("index_key_hash").items()]:
            with table.row(f"{text!a:.40}"):
                assert absolute(string_hash(text)) == expected


@pytest.mark.parametrize("length", [1, 7, 8, 9, 32, 40, 255, 256, 257, 300])
def test_a_unique_id_of_any_length_has_the_hash_of_topic_and_id(length: int):
    hashes = KeyHashes()
    for topic in TOPICS:
        for first in "0Fz~":
            key = (first + "7F00000100002A139A55" * 16)[:length]
            properties = f"UNIQ_KEY\x01{key}\x02".encode()
            for _ in range(2):  # known and unknown
                assert hashes.of_all([(topic, properties, 7, 9)]) == [(hash_of(topic, key), 7, 9)]
            assert hashes.of(topic, properties) == [hash_of(topic, key)]


def test_topics_share_what_is_known_of_producers_and_go_on_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_keys, "_MOST_TOPICS", 3)
    monkeypatch.setattr(index_keys, "_MOST_CACHED", 2)
    hashes = KeyHashes()
    for number in range(12):
        topic, key = f"T{number % 5}", f"7F00000100002A139A55{number:012X}"
        properties = f"UNIQ_KEY\x01{key}\x02".encode()
        assert hashes.of_all([(topic, properties, 7, 9)]) == [(hash_of(topic, key), 7, 9)]
