"""Captured bodies that are damaged on the way: what comes out is a body again, or the one declared error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.catalogue.body_codecs import BodyCodec
from rocketpy.wire.catalogue.exchanges import body_codec, body_name
from tests.wire.golden import whole_frames
from tests.wire.strategies import read

# Everything is a good payload; a batch and records have tests of their own; a properties text is always readable.
LOOSE = {"message", "batch", "records", "properties", "text"}


def captured_bodies() -> list[tuple[BodyCodec, bytes]]:
    """One body of each kind, the payloads of messages and packed registrations aside."""
    found: dict[tuple[int | None, bool], tuple[BodyCodec, bytes]] = {}
    for golden in whole_frames():
        code, answer = golden.request_code or -1, golden.is_answer
        codec = body_codec(code, answer=answer)
        if codec is not None and golden.record["body_len"] and body_name(code, answer=answer) not in LOOSE:
            found.setdefault((code, answer), (codec, golden.frame().body))
    assert len(found) > 55
    return list(found.values())


@given(st.sampled_from(captured_bodies()), st.data())
def test_damaged_bodies_are_a_body_or_the_declared_error(
    captured: tuple[BodyCodec, bytes], data: st.DataObject
) -> None:
    codec, whole = captured
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged)))
        piece = data.draw(
            st.sampled_from([b"", b"{", b"}", b"[", b"]", b":", b",", b'"', b"0", b"-", b"null", b"\xff"])
        )
        damaged[at : at + data.draw(st.integers(0, 3))] = piece
    found = read(lambda: codec.decode(bytes(damaged)))
    if found is not None:
        assert codec.decode(codec.encode(found)) == found
