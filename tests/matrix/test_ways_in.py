"""Every public call from every place of users' code: it works, or says at once what to do instead; it never hangs."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.matrix.calls import CALLS, CLASSES, FUNCTIONS, NOT_CALLS, SURFACES, calls_of, public
from tests.matrix.cells import PLACES, SOME, fits
from tests.matrix.places import SLOW

HOMES = {"trio": "rocketpy", "asyncio": "rocketpy.aio", "blocking": "rocketpy.sync"}
QUICK_CALLS = {"Producer.send", "Producer.send_soon"}
"""Tried from every place in every run; some others are from one place."""

QUICK_PLACES = {"a signal in send", "a signal in start", "a close under way"}
"""Of those that take half a second."""


def is_quick(surface, place, call):
    if surface == "blocking" and place == "a done-callback":
        return call in SOME or call in QUICK_CALLS
    if place in SLOW:
        return surface == "blocking" and call == "Producer.send" and place in QUICK_PLACES
    return call in QUICK_CALLS


def cells():
    for surface in SURFACES:
        for place in PLACES[surface]:
            for call in calls_of(surface):
                if fits(surface, place, call):
                    marks = () if is_quick(surface, place, call) else (pytest.mark.matrix,)
                    yield pytest.param(surface, place, call, marks=marks, id=f"{surface}-{call} from {place}")


@pytest.mark.parametrize(("surface", "place", "call"), list(cells()))
def test_a_call_from_a_place(surface, place, call, running_worker):
    running_worker.run("tests.matrix.cells:cell", surface, place, call)


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
