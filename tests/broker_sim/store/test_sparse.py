"""Pages of zeros that nobody wrote: what can be read is what a flat array of bytes would hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy_broker_sim.store.disk.sparse import PAGE, SparseBytes

PLACES = st.integers(0, 3 * PAGE) | st.sampled_from([0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 3 * PAGE])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PLACES, st.sampled_from([0, 1, 100, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 5])),
        st.tuples(st.just("resize"), PLACES, st.just(0)),
        st.tuples(st.just("clear"), PLACES, st.just(0)),
    ),
    max_size=8,
)


def write(flat: bytearray, data: bytes, offset: int) -> None:
    if data:
        flat.extend(bytes(max(0, offset + len(data) - len(flat))))
        flat[offset : offset + len(data)] = data


def resize(flat: bytearray, size: int) -> None:
    flat.extend(bytes(max(0, size - len(flat))))
    del flat[size:]


@given(STEPS, PLACES, PLACES)
def test_it_reads_like_a_flat_array(steps: list[tuple[str, int, int]], offset: int, size: int) -> None:
    sparse, flat = SparseBytes(), bytearray()
    for number, (step, place, length) in enumerate(steps, start=1):
        if step == "write":
            data = bytes([number]) * length
            sparse.write(data, place)
            write(flat, data, place)
        elif step == "resize":
            sparse.resize(place)
            resize(flat, place)
        else:
            sparse.clear(place)
            flat[place:] = bytes(max(0, len(flat) - place))
    assert len(sparse) == len(flat)
    assert sparse.read(size, offset) == flat[offset : offset + size]
    assert sparse.read(len(flat) + 1, 0) == flat
    assert sparse.zero_from(offset) == (not any(flat[offset:]))


def test_a_copy_is_on_its_own() -> None:
    first = SparseBytes(b"abc")
    second = first.copy()
    second.write(b"x", 1)
    assert (first.read(3, 0), second.read(3, 0)) == (b"abc", b"axc")


def test_what_was_never_written_takes_no_room() -> None:
    sparse = SparseBytes()
    sparse.resize(1 << 50)
    sparse.write(b"end", (1 << 50) - 3)
    assert sparse.read(10, (1 << 50) - 5) == b"\0\0end"
    sparse.clear(1 << 49)
    assert sparse.zero_from(0)
    assert len(sparse) == 1 << 50
