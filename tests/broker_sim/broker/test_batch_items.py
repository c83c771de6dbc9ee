"""The items of a batch, freed of what only a broker may write."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.message import PropertyName
from rocketpy.wire.batch import BatchItem, encode_batch_items
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.putting.batch_items import SYSTEM_PROPERTIES, few_items_of, items_of

USUAL = [PropertyName.UNIQUE_KEY, PropertyName.WAIT, PropertyName.TAGS, PropertyName.KEYS]
NAMES = st.sampled_from([*USUAL, *sorted(SYSTEM_PROPERTIES), "X", "XKEYS", "KEYSX"])


def read(texts: list[str]) -> list[list[str]]:
    """The names of the properties of each item that is let through, read both ways."""
    body = encode_batch_items([BatchItem(0, b"x", text.encode()) for text in texts])
    found = [[*decode_properties(item.properties.decode())] for item in few_items_of(body)]
    assert [[*decode_properties(item.properties.decode())] for item in run_steps(items_of(body))] == found
    return found


@given(st.lists(st.lists(NAMES, max_size=4, unique=True), min_size=1, max_size=4))
def test_what_only_a_broker_writes_is_dropped_whatever_stands_beside_it(each: list[list[str]]) -> None:
    found = read(["".join(f"{name}\x01v\x02" for name in names) for names in each])
    assert found == [[name for name in names if name not in SYSTEM_PROPERTIES] for names in each]


def test_no_usual_name_is_the_end_of_another_name_that_counts() -> None:
    names = [*USUAL, *SYSTEM_PROPERTIES]
    assert not [(one, other) for one, other in permutations(names, 2) if one in USUAL and other.endswith(one)]


@pytest.mark.parametrize("name", sorted(SYSTEM_PROPERTIES))
def test_one_forged_property_among_a_hundred_messages_is_dropped(name: str) -> None:
    for value in ("u", "u_v", "UNIQ_KEY"):
        usual = f"UNIQ_KEY\x01{value}\x02WAIT\x01true\x02"
        found = read([usual] * 50 + [f"{usual}{name}\x01v\x02"] + [usual] * 49)
        assert found == [["UNIQ_KEY", "WAIT"]] * 100


@pytest.mark.parametrize("name", [*USUAL, *sorted(SYSTEM_PROPERTIES)])
def test_items_with_the_same_names_are_judged_by_one(name: str) -> None:
    texts = [f"UNIQ_KEY\x01{number:04}\x02{name}\x01v\x02" for number in range(200)]
    for system in SYSTEM_PROPERTIES & {name}:
        assert read(texts) == [["UNIQ_KEY"]] * 200, system
    items = run_steps(items_of(encode_batch_items([BatchItem(0, b"x", text.encode()) for text in texts])))
    assert items.have_same_names == (name not in SYSTEM_PROPERTIES)
    assert [item.properties.decode() for item in items] == (
        [text[:14] for text in texts] if name in SYSTEM_PROPERTIES else texts
    )


def test_one_forged_property_among_items_alike_is_dropped() -> None:
    usual, forged = "KEYS\x01%010d\x02", "KEYS\x01%d\x02POP_CK\x01\x02"
    for at in (0, 50, 99):
        texts = [usual % number for number in range(100)]
        texts[at] = forged % 7
        assert [len(names) for names in read(texts)] == [1] * 100
        texts[at] = "REAL_QID\x017890123\x02"[: len(usual % 0)]
        assert read(texts)[at] == []
