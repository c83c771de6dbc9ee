"""Whole registrations and their pieces: which topics stay where those that are left out are forgotten."""

from __future__ import annotations

import random

import pytest

from rocketpy.wire.bodies.registration import Piece
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy_broker_sim.namesrv.route_info import RouteInfo
from tests.broker_sim.namesrv.test_route_info import identity, registration

OWN = identity().broker_name


@pytest.fixture
def tables():
    return RouteInfo(delete_topic_with_registration=True)


def tell(tables, topics, index=None, count=None, *, said=True, version=1):
    """One request of a broker, which says which piece it is or, as Apache's, does not."""
    piece = (Piece() if index is None else Piece(index=index, count=count)) if said else None
    made = registration(identity(), topics, version=DataVersion(timestamp=version, counter=version), piece=piece)
    assert tables.register(made) is not None


def held(tables):
    return set(tables.queues)


def test_N8_no_piece_deletes_what_another_one_holds(tables):
    for _ in range(3):
        tell(tables, ("t1", "t2"), 0, 3)
        tell(tables, ("t3", "t4"), 1, 3)
        tell(tables, ("t5", "t6"), 2, 3)
        assert held(tables) == {"t1", "t2", "t3", "t4", "t5", "t6"}


def test_N8_what_no_piece_holds_is_forgotten_with_the_last_one(tables):
    tell(tables, ("t1", "t2", "gone", "t3"), 0, 1)
    tell(tables, ("t1", "t2"), 0, 2)
    assert "gone" in held(tables)
    tell(tables, ("t3",), 1, 2)
    assert held(tables) == {"t1", "t2", "t3"}


def test_N8_changes_delete_nothing_and_count_for_the_pieces_around_them(tables):
    tell(tables, ("t1", "t2", "t3"), 0, 1)
    tell(tables, ("t4",))
    assert held(tables) == {"t1", "t2", "t3", "t4"}
    tell(tables, ("t1", "t2"), 0, 2)
    tell(tables, ("between",))
    tell(tables, ("t3", "t4"), 1, 2)
    assert held(tables) == {"t1", "t2", "t3", "t4", "between"}


@pytest.mark.parametrize("pieces", [[(0, 3), (2, 3)], [(1, 3), (2, 3)], [(0, 3), (1, 2)], [(0, 3), (1, 3), (1, 3)]])
def test_N8_pieces_that_never_came_delete_nothing(tables, pieces):
    tell(tables, ("t1", "t2", "t3"), 0, 1)
    for index, count in pieces:
        tell(tables, (f"p{index}", "t1"), index, count)
    assert {"t1", "t2", "t3"} <= held(tables)


def test_N8_a_broker_of_apaches_that_registers_whole_forgets_at_once(tables):
    tell(tables, (OWN, "t1", "t2"), said=False)
    tell(tables, ("t3",), said=False)
    assert held(tables) == {OWN, "t1", "t2", "t3"}, "a single topic is the change of one"
    tell(tables, (OWN, "t1", "t3"), said=False, version=2)
    assert held(tables) == {OWN, "t1", "t3"}


@pytest.mark.parametrize("seed", range(20))
def test_N8_the_pieces_of_a_broker_of_apaches_keep_each_other_and_drop_what_is_gone(seed):
    """It says nothing of pieces. Topics come and go between its registrations, and move from piece to piece."""
    tables, source = RouteInfo(delete_topic_with_registration=True), random.Random(seed)
    names = [OWN, *(f"t{n}" for n in range(30))]
    source.shuffle(names)
    for round_ in range(8):
        pieces = [names[n : n + 7] for n in range(0, len(names), 7)]
        before = held(tables)
        for index, piece in enumerate(pieces):
            tell(tables, piece, said=False, version=round_)
            assert set().union(*pieces[: index + 1]) | (before & set(names)) <= held(tables)
        if round_ == 3:
            source.shuffle(names)
        dropped = source.choice([name for name in names if name != OWN])
        names.remove(dropped)
        names.insert(source.randrange(len(names)), f"new{round_}")
    for round_ in range(3):
        for n in range(0, len(names), 7):
            tell(tables, names[n : n + 7], said=False, version=100 + round_)
    assert held(tables) == set(names)
