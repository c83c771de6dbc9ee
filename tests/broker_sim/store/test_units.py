"""Units of many messages are those that are packed one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.words import int_array, long_array
from rocketpy_broker_sim.store.queue.units import UNIT, pack_units, positions_of

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
UNITS = st.lists(st.tuples(st.integers(0, (1 << 63) - 1), st.integers(1, 0x7FFFFFFF), st.one_of(st.just(0), LONG)))


@given(UNITS)
def test_units_are_packed_and_read_together(units: list[tuple[int, int, int]]) -> None:
    positions, sizes, codes = [[unit[at] for unit in units] for at in range(3)]
    packed = pack_units(long_array(positions), int_array(sizes), codes)
    assert packed == b"".join(UNIT.pack(*unit) for unit in units)
    assert list(positions_of(packed)) == positions
