"""The stream between master and slave, in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.catalogue.ha_stream import ReportDecoder, Transfer, TransferDecoder, encode_report

OFFSETS = st.integers(0, 2**63 - 1)


def test_as_apaches_parties_write_it() -> None:
    assert Transfer(0x0102, b"log").encode() == bytes.fromhex("0000000000000102 00000003") + b"log"
    assert Transfer(7, b"").encode() == bytes.fromhex("0000000000000007 00000000")
    assert encode_report(0x0102) == bytes.fromhex("0000000000000102")


@given(st.lists(st.tuples(OFFSETS, st.binary(max_size=40)), max_size=8), st.data())
def test_pieces_in_any_cuts(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    pieces = [Transfer(*each) for each in sent]
    decoder, found = TransferDecoder(), []
    for part in cuts(b"".join(piece.encode() for piece in pieces), data):
        found += decoder.receive(part)
    assert found == pieces


@given(st.lists(OFFSETS, min_size=1, max_size=8), st.data())
def test_the_last_report_counts(offsets: list[int], data: st.DataObject) -> None:
    decoder = ReportDecoder()
    heard = [decoder.receive(part) for part in cuts(b"".join(map(encode_report, offsets)), data)]
    assert [offset for offset in heard if offset is not None][-1] == offsets[-1]


def cuts(whole: bytes, data: st.DataObject) -> list[bytes]:
    parts = []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        parts.append(whole[:size])
        whole = whole[size:]
    return parts


@pytest.mark.parametrize(
    "head", ["ffffffffffffffff 00000000", "0000000000000000 ffffffff", "0000000000000000 00400001"]
)
def test_threat_what_is_no_piece_is_refused_before_it_is_kept(head: str) -> None:
    with pytest.raises(RemoteProtocolError, match="the limit is 4194304"):
        TransferDecoder().receive(bytes.fromhex(head))


def test_a_piece_may_be_as_large_as_the_limit() -> None:
    piece = Transfer(0, bytes(100))
    assert TransferDecoder(limit=100).receive(piece.encode()) == [piece]
    with pytest.raises(RemoteProtocolError, match="the limit is 99"):
        TransferDecoder(limit=99).receive(piece.encode())


def test_what_is_no_offset_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="reports the offset -1"):
        ReportDecoder().receive(b"\xff" * 8)
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(LocalProtocolError):
            encode_report(wrong)
        with pytest.raises(LocalProtocolError):
            Transfer(wrong, b"").encode()
