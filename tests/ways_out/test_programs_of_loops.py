"""Programs on trio and asyncio end in every way: within bounds, without a word, and what was acknowledged is stored."""

from __future__ import annotations

import pytest

from tests.ways_out.programs import STATUS
from tests.ways_out.quiet import check_quiet
from tests.ways_out.test_programs import BOUND, BROADCAST, CONSUMING, IN_ORDER, NOT_OPEN, STATES, WAYS, check_child

CELLS = [
    (surface, state, way)
    for surface in ("trio", "asyncio")
    for state in STATES
    for way in WAYS
    # What waits is only told to end by signals.
    if (state not in NOT_OPEN or way in ("SIGTERM closes", "SIGTERM raises"))
    # Trio lets nobody forget to leave what was entered.
    and (surface != "trio" or way not in ("end", "forgotten"))
    # Tasks that send keep their producer.
    and (state, way) not in (("sends in flight", "forgotten"), ("pulling", "forgotten"))
    # Who ends without closing cancels the task that pulls.
    and (state, way) != ("pulling", "end")
]
QUICK = {
    ("asyncio", "sends in flight", "end"),
    ("asyncio", "idle", "fork"),
    ("asyncio", "starting", "SIGTERM closes"),
    ("trio", "sends in flight", "SIGTERM closes"),
}


@pytest.mark.parametrize(
    ("surface", "state", "way"),
    [pytest.param(*cell, marks=() if cell in QUICK else pytest.mark.matrix) for cell in CELLS],
)
def test_a_program_ends(case, surface, state, way):
    if state in CONSUMING or state == "closing in order":
        case.with_message()
    ended = case.run("tests.ways_out.programs_of_loops:run", surface=surface, state=state, way=way, limit=BOUND)
    assert ended.status == (STATUS if way in ("sys.exit", "SIGTERM raises") else 0), str(ended)
    assert ended.seconds < BOUND, str(ended)
    check_quiet(ended)
    assert ended.said.get("wrong", []) == [], str(ended)
    assert set(ended.said.get("acknowledged", ())) <= set(case.stored()), str(ended)
    if way == "SIGTERM closes":
        assert ended.said.get("closed"), str(ended)
    if way == "fork":
        check_child(ended)
    if state in CONSUMING:
        assert case.committed() <= ended.said.get("finished", 0), str(ended)
    if state == BROADCAST:
        assert case.kept() <= ended.said.get("finished", 0), str(ended)
        assert case.kept() == 1 or way != "SIGTERM closes", str(ended)
    if state == IN_ORDER:
        assert not case.holds_locks(), str(ended)
    if way == "forgotten":
        assert [line for line in ended.err if "ResourceWarning" in line and case.group in line], str(ended)
