"""Who has most, as by a search."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rocketpy_broker_sim.broker.ranks import Ranks


@pytest.mark.parametrize("seed", range(10))
def test_the_greediest_is_found_as_by_a_search(seed: int) -> None:
    source = random.Random(seed)
    ranks: Ranks[str] = Ranks()
    known: Counter[str] = Counter()
    for _ in range(500):
        key = source.choice("abcdef")
        if known[key] and source.random() < 0.5:
            known[key] -= 1
            ranks.remove(key)
        else:
            known[key] += 1
            ranks.add(key)
        assert ranks.most == max(known.values())
        assert {each: ranks.of(each) for each in "abcdef"} == {each: known[each] for each in "abcdef"}
        if ranks.most:
            assert known[ranks.greediest()] == ranks.most
