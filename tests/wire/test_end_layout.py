"""Ends of transactions that are read by a layout say what the full parser says, and what is unusual is left to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.end_layout import LONGEST_HEADER, LaidOutEnd
from rocketpy.wire.frame import Frame
from rocketpy.wire.headers.transaction import EndTransactionRequestHeader
from rocketpy.wire.send_layout import SendReader
from rocketpy.wire.serialize import decode_command
from tests.wire.test_send_layout import frame_of, plain


def fields(offset: int = 1, position: int = 5, how: int = 8, ids: str = "ID", group: str = "p") -> dict[str, str]:
    return EndTransactionRequestHeader(
        producer_group=group,
        tran_state_table_offset=offset,
        commit_log_offset=position,
        commit_or_rollback=how,
        msg_id=ids,
        transaction_id=ids,
    ).to_ext()


def ours(opaque: int = 1, **more: Any) -> Frame:
    return frame_of(RemotingCommand(RequestCode.END_TRANSACTION, fields(**more), b"", opaque, ONEWAY_FLAG))


def spaced(opaque: int = 1, **more: Any) -> Frame:
    """As other JSON libraries write it: the opaque first, and blanks."""
    command = {"code": 37, "language": "GO", "version": 317, "opaque": opaque, "flag": 2, "remark": ""}
    return Frame(0, json.dumps({**command, "extFields": fields(**more)}).encode(), b"")


@pytest.mark.parametrize("make", [ours, spaced])
def test_an_end_that_looks_like_the_one_before_is_read_by_its_layout(make: Callable[..., Frame]) -> None:
    reader = SendReader()
    assert not isinstance(reader.read(make()), LaidOutEnd)
    frame = make(opaque=77, offset=3, position=1_700_000_000_000, ids="Other+{}")
    found = reader.read(frame)
    assert isinstance(found, LaidOutEnd)
    assert plain(found) == decode_command(frame)
    assert (found.offset, found.position, found.opaque) == (3, 1_700_000_000_000, 77)
    assert found.layout.header.producer_group == "p"
    assert not isinstance(reader.read(make(how=12)), LaidOutEnd)


def test_a_header_that_is_too_long_has_no_layout() -> None:
    """An expression of a megabyte would take a third of a second, and sixty megabytes."""
    reader = SendReader()
    long = LONGEST_HEADER - len(ours().header) + 1
    assert not isinstance(reader.read(ours(group="p" * long)), LaidOutEnd)
    assert isinstance(reader.read(ours(group="p" * long)), LaidOutEnd)
    assert not isinstance(reader.read(ours(group="p" * (long + 1))), LaidOutEnd)
    assert not isinstance(reader.read(ours(group="p" * (long + 1))), LaidOutEnd)


TEXT = st.text(st.sampled_from(list("abc\x01\\\"'{}:, /ué\n\x00\x7f")), max_size=12)
INTEGERS = st.integers(-(2**31), 2**31 - 1)


@given(
    st.lists(st.tuples(st.sampled_from(["p", "q"]), INTEGERS, INTEGERS, TEXT, st.booleans()), max_size=12),
)
def test_whatever_comes_the_reader_says_what_the_parser_says(ends: list[tuple[str, int, int, str, bool]]) -> None:
    reader = SendReader()
    for group, number, opaque, text, other in ends:
        frame = (spaced if other else ours)(opaque=opaque, group=group, offset=number, position=number, ids=text)
        assert plain(reader.read(frame)) == decode_command(frame)


ODD = [
    ('"tranStateTableOffset":"1"', '"tranStateTableOffset":"01"'),
    ('"tranStateTableOffset":"1"', '"tranStateTableOffset":1'),
    ('"tranStateTableOffset":"1"', '"tranStateTableOffset":"-1"'),
    ('"tranStateTableOffset":"1"', '"tranStateTableOffset":"1","tranStateTableOffset":"2"'),
    ('"commitLogOffset":"5"', '"commitLogOffset":"99999999999999999999"'), ('"commitLogOffset":"5"', '"x":"5"'),
    ('"commitLogOffset":"5"', '"commitLogOffset":""'), ('"msgId":"ID"', '"msgId":"I\\u0044"'),
    ('"msgId":"ID"', '"msgId":null'), ('"msgId":"ID"', '"msgId":"I\\"D"'), ('"msgId":"ID"', '"msgId":"I\x01"'),
    ('"msgId":"ID"', '"msgId":"é"'), ('"opaque":1,', '"opaque":01,'), ('"opaque":1,', '"opaque":"1",'),
    ('"opaque":1,', '"opaque":1,"opaque":2,'), ('"producerGroup":"p"', '"producerGroup":"p","x":{"msgId":""}'),
    ("{", "{ "), ('"code":37', '"code":38'), ('"flag":2', '"flag":0'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), ODD)
@pytest.mark.parametrize("first", [True, False])
def test_headers_with_something_odd_are_read_as_the_parser_reads_them(old: str, new: str, first: bool) -> None:
    usual = ours()
    text = usual.header.decode()
    assert old in text
    odd = usual._replace(header=text.replace(old, new, 1).encode())
    reader = SendReader()
    for frame in (odd, odd, usual, odd) if first else (usual, odd, usual, odd):
        try:
            expected = decode_command(frame)
        except RemoteProtocolError:
            with pytest.raises(RemoteProtocolError):
                reader.read(frame)
        else:
            assert plain(reader.read(frame)) == expected
