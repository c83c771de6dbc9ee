"""Programs with an Admin end in every way: within bounds, without a word, and who waits for an answer is told why."""

from __future__ import annotations

import pytest

from tests.surfaces.surface import SURFACES
from tests.ways_out.programs import STATUS
from tests.ways_out.programs_of_admins import OWNERS
from tests.ways_out.quiet import check_quiet
from tests.ways_out.test_programs import BOUND, WAYS, check_child

CELLS = [
    (surface, owner, doing, way)
    for surface in SURFACES
    for owner in OWNERS
    for doing in ("idle", "waiting", "commanding")
    for way in WAYS
    # Trio lets nobody forget to leave what was entered, or leave it in another order.
    if (surface != "trio" or (way not in ("end", "forgotten") and owner != "of a producer, left open"))
    # What waits keeps what it waits for.
    and (doing == "idle" or way != "forgotten")
    # It is the same call to more brokers.
    and (doing != "commanding" or owner in ("alone", "of a producer"))
    # Only closing is different.
    and (owner != "of a producer, left open" or way in ("SIGTERM closes", "SIGTERM raises", "sys.exit"))
]
QUICK = {
    ("blocking", "alone", "waiting", "end"),
    ("blocking", "of a producer", "idle", "fork"),
    ("blocking", "of a producer, left open", "waiting", "SIGTERM closes"),
    ("trio", "of a consumer", "waiting", "SIGTERM closes"),
    ("asyncio", "of a producer", "commanding", "SIGTERM closes"),
    ("asyncio", "alone", "idle", "forgotten"),
}
THIRDS = 3


def marked():
    """What an Admin that was handed out does otherwise is tried on one surface in each way, and on all by night."""
    surfaces, owners = list(SURFACES), list(OWNERS)
    for surface, owner, doing, way in CELLS:
        number = surfaces.index(surface) + owners.index(owner) + WAYS.index(way)
        marks = [] if (surface, owner, doing, way) in QUICK else [pytest.mark.matrix]
        if marks and owner != "alone" and number % THIRDS:
            marks.append(pytest.mark.nightly)
        yield pytest.param(surface, owner, doing, way, marks=marks)


@pytest.mark.parametrize(("surface", "owner", "doing", "way"), list(marked()))
def test_a_program_with_an_admin_ends(wide_case, surface, owner, doing, way):
    ended = run(wide_case, surface, owner, doing, way)
    assert ended.status == (STATUS if way in ("sys.exit", "SIGTERM raises") else 0), str(ended)
    assert ended.seconds < BOUND, str(ended)
    check_quiet(ended)
    assert ended.said.get("wrong", []) == [], str(ended)
    if way == "SIGTERM closes":
        assert ended.said.get("closed"), str(ended)
    if way == "fork":
        check_child(ended)
    if way == "forgotten":
        assert [line for line in ended.err if "ResourceWarning" in line], str(ended)
    if doing != "idle" and (way in ("SIGTERM closes", "fork") or (surface == "blocking" and way != "end")):
        assert ended.said["told"], str(ended)
    if doing == "commanding":
        # The broker that hangs has never seen it.
        assert wide_case.brokers_with_group() == ["broker-b"], str(ended)
        # The answer of the other one may still be under way when the program ends.
        assert ended.said.get("done", []) in (["broker-b"], []), str(ended)


def run(case, surface, owner, doing, way):
    what = {"owner": owner, "doing": doing, "way": way, "limit": BOUND}
    if surface == "blocking":
        return case.run("tests.ways_out.programs_of_admins:run", **what)
    return case.run("tests.ways_out.programs_of_admins:run_in_loop", surface=surface, **what)
