"""A block around a client is left in every state by every kind of exception: it closes that client, and no other."""

from __future__ import annotations

import pytest

from tests.surfaces.surface import SURFACES
from tests.ways_out.blocks import EXITS, STATES
from tests.ways_out.quiet import check_quiet

CELLS = [
    (surface, state, way)
    for surface in SURFACES
    for state in STATES
    for way in EXITS
    # Nothing was entered yet, or has been left already: only an exception can end that.
    if state not in ("starting", "closing") or way not in ("left", "generator closed")
]
QUICK_OF_ALL = {
    ("idle", "GeneratorExit"),
    ("sends in flight", "left"),
    ("starting", "SystemExit"),
    ("closing", "KeyboardInterrupt"),
}
QUICK_OF_BLOCKING = {
    ("idle", "left"),
    ("idle", "CancelledError"),
    ("idle", "skip"),
    ("idle", "BaseExceptionGroup"),
    ("idle", "generator closed"),
    ("sends in flight", "GeneratorExit"),
    ("listener running", "left"),
    ("async listener running", "CancelledError"),
}


def marked(cells):
    for surface, *cell in cells:
        quick = tuple(cell) in QUICK_OF_ALL or (surface == "blocking" and tuple(cell) in QUICK_OF_BLOCKING)
        yield pytest.param(surface, *cell, marks=() if quick else pytest.mark.matrix)


def check(case, ended):
    """What holds in every case: nobody found anything wrong, and what was acknowledged is in the store."""
    assert ended.status == 0, str(ended)
    assert ended.said["wrong"] == [], str(ended)
    assert set(ended.said.get("acknowledged", ())) <= set(case.stored()), str(ended)
    check_quiet(ended)


@pytest.mark.parametrize(("surface", "state", "way"), list(marked(CELLS)))
def test_a_block_is_left(case, surface, state, way):
    """Where sends are under way their broker answers again in a moment."""
    if "listener" in state:
        case.with_message()
    ended = case.run("tests.ways_out.blocks:leave", surface=surface, state=state, way=way, healed=True)
    check(case, ended)
    if "listener" in state:
        assert case.committed() <= ended.said["finished"], str(ended)
        if way in ("left", "Exception", "ExceptionGroup"):
            assert case.committed() == 1, str(ended)
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
