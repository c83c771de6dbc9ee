"""Every public call from every place of users' code: it works, or says at once what to do instead; it never hangs."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from tests.deselected import left_out
from tests.matrix.calls import CALLS, CLASSES, FUNCTIONS, NOT_CALLS, SURFACES, calls_of, public
from tests.matrix.cells import PLACES, SOME, fits
from tests.matrix.places import SLOW
from tests.matrix.spots import SPOTS
from tests.matrix.worlds import WAYS

HOMES = {"trio": "rocketpy", "asyncio": "rocketpy.aio", "blocking": "rocketpy.sync"}
QUICK_CALLS = {"Producer.send", "Producer.send_soon"}
"""Tried from every place in every run; some others are from one place."""

QUICK_PLACES = {"a signal in send", "a signal in start", "a close under way"}
"""Of those that take half a second."""

LEADING = SOME | {
    "LitePullConsumer.poll",
    "LitePullConsumer.commit",
    "LitePullConsumer.assign",
    "LitePullConsumer.start",
    "LitePullConsumer.close",
    "PullConsumer.pull",
    "PullConsumer.start",
    "PullConsumer.close",
    "Admin.topics",
    "replay_dead_letters",
}
"""Each goes a way of its own through a surface. With the matrices it is tried from every place, on one of the surfaces.

The others go the same ways. A call is tried from every twelfth place, the next call from the next ones, and on each
surface from other ones: a pair that all three surfaces have is tried on one of them at most, and in a night on all.
"""
RARE = SPOTS.keys() - {"a plain listener", "an async listener", "before_consume", "on_revoked"}
"""Functions that are called as those others are: there the calls that do not lead are tried by night alone."""
THIRDS = 3
TWELFTHS = 12


def numbered(names):
    return {name: number for number, name in enumerate(names)}


ALL_PLACES = dict.fromkeys(place for surface in SURFACES for place in PLACES[surface])
# Those that every surface has come together, so that the thirds of each surface are of one size.
ROWS = numbered(
    sorted(ALL_PLACES, key=lambda place: (place in RARE, place in SLOW, not all(place in PLACES[s] for s in SURFACES)))
)
COLUMNS = numbered(CALLS)
LEADING_COLUMNS = numbered(call for call in CALLS if call in LEADING)


def is_quick(surface, place, call, number):
    if surface == "blocking" and place == "a done-callback":
        return call in SOME or call in QUICK_CALLS
    if place in SLOW:
        return surface == "blocking" and call == "Producer.send" and place in QUICK_PLACES
    if place in RARE:
        return call == "Producer.send" and number % THIRDS == 0
    return call in QUICK_CALLS


def marks_of(surface, place, call, number):
    """In which runs a cell is: all, those with the matrices, or the nightly ones."""
    if is_quick(surface, place, call, number):
        return ()
    is_by_day = number % THIRDS == 0 if call in LEADING else number % TWELFTHS == 0 and place not in RARE
    return (pytest.mark.matrix,) if is_by_day else (pytest.mark.matrix, pytest.mark.nightly)


def number_of(third, place, call):
    """Of a cell: on each surface other calls have one that `THIRDS` or `TWELFTHS` divides, and at each place."""
    columns = LEADING_COLUMNS if call in LEADING else COLUMNS
    return third + ROWS[place] + columns[call]


def cells():
    for third, surface in enumerate(SURFACES):
        for place in PLACES[surface]:
            way = WAYS[(ROWS[place] - third) % len(WAYS)]
            for call in calls_of(surface):
                if fits(surface, place, call):
                    marks = marks_of(surface, place, call, number_of(third, place, call))
                    yield pytest.param(surface, place, call, way, marks=marks, id=f"{surface}-{call} from {place}")


def pytest_generate_tests(metafunc):
    """Make the cells that the run may select: a twelfth of most, a third of leading calls, and all in a night."""
    if metafunc.function is test_a_call_from_a_place:
        refused = left_out(metafunc.config.option.markexpr)
        wanted = [cell for cell in cells() if not any(mark.name in refused for mark in cell.marks)]
        metafunc.parametrize(("surface", "place", "call", "way"), wanted)


def test_a_call_from_a_place(surface, place, call, way, running_worker):
    running_worker.run("tests.matrix.cells:cell", surface, place, call, way)


@pytest.mark.parametrize("surface", SURFACES)
def test_each_call_has_a_twelfth_of_the_places_of_a_surface_at_least(surface):
    """In the runs with the matrices; and each place a twelfth of the calls."""
    pairs, tried = [], []
    for cell in cells():
        _, place, call, _ = cell.values
        if cell.values[0] == surface and (place not in RARE or call in LEADING):
            pairs.append((place, call))
            if pytest.mark.nightly not in cell.marks:
                tried.append((place, call))
    for side in (0, 1):
        all_of, some_of = (Counter(pair[side] for pair in chosen) for chosen in (pairs, tried))
        few = {
            name: (some_of[name], count)
            for name, count in all_of.items()
            if some_of[name] < max(1, count // TWELFTHS - 1)
        }
        assert not few


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", CLASSES)
def test_every_public_name_is_called_or_listed(surface, kind):
    listed = NOT_CALLS.get(surface, {}).get(kind, {})
    called = {
        part for name in calls_of(surface) if name.split(".")[0] == kind for part in name.split(".")[1].split(", ")
    }
    names = public(getattr(import_module(HOMES[surface]), kind))
    assert names - called - set(listed) == set(), "give it a row in tests/matrix/calls.py"
    assert set(listed) <= names


def test_every_call_is_one_of_a_class_or_a_function():
    assert {name.split(".")[0] for name in CALLS} == {*CLASSES, *FUNCTIONS}
