"""A block around a client is left in every state by every kind of exception: it closes that client, and no other."""

from __future__ import annotations

import pytest

from tests.surfaces.surface import SURFACES
from tests.ways_out.blocks import EXITS, STATES
from tests.ways_out.quiet import check_quiet

UNENTERED = ("starting", "closing", "closing in order", "interrupted")
RARE = (
    "listener running in order",
    "async listener running in order",
    "listener running of a broadcast",
    "waiting in poll",
    "waiting in pull",
    "administering",
    "administering for another",
    "interrupted",
    "closing in order",
)
"""Each goes out as one of the others does, and is tried on one surface in each way, and on all by night."""
THIRDS = 3
CELLS = [
    (surface, state, way)
    for surface in SURFACES
    for state in STATES
    for way in EXITS
    # Nothing was entered yet, or has been left already, or a call is to end: only an exception can end that.
    if state not in UNENTERED or way not in ("left", "generator closed")
]
QUICK = {
    ("blocking", "sends in flight", "left"),
    ("blocking", "idle", "CancelledError"),
    ("blocking", "idle", "generator closed"),
    ("blocking", "closing", "KeyboardInterrupt"),
    ("blocking", "listener running", "left"),
    ("blocking", "listener running in order", "left"),
    ("trio", "sends in flight", "GeneratorExit"),
    ("blocking", "polling", "KeyboardInterrupt"),
    ("trio", "polling", "CancelledError"),
    ("asyncio", "polling", "left"),
    ("trio", "closing", "KeyboardInterrupt"),
    ("asyncio", "sends in flight", "left"),
    ("asyncio", "starting", "SystemExit"),
    ("asyncio", "async listener running", "CancelledError"),
    ("blocking", "administering", "KeyboardInterrupt"),
    ("trio", "administering", "left"),
    ("asyncio", "administering", "CancelledError"),
    ("blocking", "administering for another", "left"),
    ("blocking", "interrupted", "KeyboardInterrupt"),
    ("trio", "interrupted", "CancelledError"),
    ("asyncio", "interrupted", "SystemExit"),
}
"""Each state, each surface, and each kind of exception that is treated in its own way."""


def marked(cells):
    surfaces, states, ways = list(SURFACES), list(STATES), list(EXITS)
    for surface, state, way in cells:
        number = surfaces.index(surface) + states.index(state) + ways.index(way)
        marks = [] if (surface, state, way) in QUICK else [pytest.mark.matrix]
        if marks and state in RARE and number % THIRDS:
            marks.append(pytest.mark.nightly)
        yield pytest.param(surface, state, way, marks=marks)


def check(case, ended):
    """What holds in every case: nobody found anything wrong, and what was acknowledged is in the store."""
    assert ended.status == 0, str(ended)
    assert ended.said["wrong"] == [], str(ended)
    assert set(ended.said.get("acknowledged", ())) <= set(case.stored()), str(ended)
    check_quiet(ended)


@pytest.mark.parametrize(("surface", "state", "way"), list(marked(CELLS)))
def test_a_block_is_left(case, surface, state, way):
    """Where sends are under way their broker answers again in a moment."""
    if "listener" in state or state in ("polling", "waiting in poll", "waiting in pull", "closing in order"):
        case.with_message()
    ended = case.run("tests.ways_out.blocks:leave", surface=surface, state=state, way=way, healed=True)
    check(case, ended)
    if "listener" in state:
        consumed = case.kept() if "broadcast" in state else case.committed()
        assert consumed <= ended.said["finished"], str(ended)
        if way in ("left", "Exception", "ExceptionGroup"):
            assert consumed == 1, str(ended)
            assert not case.holds_locks(), str(ended)
    elif state == "polling":
        # It has not asked for more: the message comes again.
        assert ended.said["begun"] == 1, str(ended)
        assert case.committed() == 0, str(ended)
    else:
        assert not [number for number in case.stored() if number not in ended.said["accepted"]], str(ended)


HUNG = [(surface, way) for surface in SURFACES for way in EXITS]


@pytest.mark.parametrize(
    ("surface", "way"),
    [pytest.param(*cell, marks=() if cell[1] == "Exception" else pytest.mark.matrix) for cell in HUNG],
)
def test_a_block_is_left_while_its_broker_hangs(case, surface, way):
    """It is left in time, and every send that was under way has failed."""
    ended = case.run("tests.ways_out.blocks:leave", surface=surface, state="sends in flight", way=way, healed=False)
    check(case, ended)
    assert case.stored() == [0]
