"""Unique ids and offset ids."""

from __future__ import annotations

import itertools
import threading
import time
from calendar import timegm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy import seams
from rocketpy.errors import ConfigError
from rocketpy.wire.hosts import pack_host
from rocketpy.wire.message_id import (
    OffsetMessageId,
    UniqueId,
    UniqueIds,
    decode_offset_message_id,
    decode_unique_id,
    offset_message_id,
    uniq_id_counter,
    uniq_id_ip,
    uniq_id_offset_in_month,
    uniq_id_pid,
    uniq_id_time,
)
from tests.strategies import OFFSETS, PORTS, ipv4, ipv6
from tests.tables import Table
from tests.vectors import java_cases, raises, vector

V4 = bytes((192, 0, 2, 2))
V6 = bytes.fromhex("fd000000000000000000000000000002")


def ms(*date: int) -> int:
    """A local date and time as ms since 1970."""
    return int(time.mktime((*date, *(0,) * (8 - len(date)), -1))) * 1000


# --- offset ids ------------------------------------------------------------------------------------------


def test_P12_offset_ids_are_those_of_java() -> None:
    with Table() as table:
        for place, text in java_cases("message_id_create"):
            with table.row(place):
                assert offset_message_id(pack_host(place["host"], int(place["port"])), int(place["offset"])) == text
                assert decode_offset_message_id(text) == (place["host"], place["port"], place["offset"])


def test_P12_offset_ids_of_the_vectors() -> None:
    with Table() as table:
        for place, text in vector("offset_msg_id").items():
            with table.row(place):
                address, offset = place.split("@")
                ip, port = address.split(":")
                assert offset_message_id(pack_host(ip, int(port)), int(offset)) == text


def test_P12_offset_ids_are_read() -> None:
    with Table() as table:
        for text, expected in java_cases("message_id_decode"):
            with table.row(text):
                if raises(expected) or "z" in text:  # Java reads a digit that is none as 0xFF; we say so
                    with pytest.raises(ConfigError):
                        decode_offset_message_id(text)
                    continue
                ip, port, offset = decode_offset_message_id(text)
                assert (port, offset) == (expected["port"], expected["offset"])
                assert pack_host(ip, port) == pack_host(str(expected["host"]), port)


@given(ipv4() | ipv6(), PORTS, OFFSETS)
def test_P12_every_place_has_an_id(ip: str, port: int, offset: int) -> None:
    text = offset_message_id(pack_host(ip, port), offset)
    assert len(text) == (56 if ":" in ip else 32)
    assert text == text.upper()
    assert decode_offset_message_id(text) == (ip, port, offset)


@given(st.text(max_size=60) | st.text("0123456789abcdefABCDEF \n", min_size=32, max_size=56))
def test_any_text_is_an_id_or_a_config_error(text: str) -> None:
    for read in (
        decode_offset_message_id,
        decode_unique_id,
        uniq_id_ip,
        uniq_id_pid,
        uniq_id_offset_in_month,
        uniq_id_counter,
    ):
        try:
            read(text)
        except ConfigError:
            continue
        assert len(text) in (32, 56)


# --- unique ids ------------------------------------------------------------------------------------------


def test_P15_the_address_is_recoverable() -> None:
    with Table() as table:
        for text, ip in java_cases("uniq_id_ip"):
            with table.row(text):
                assert pack_host(uniq_id_ip(text), 0) == pack_host(ip, 0)


def test_P15_the_process_is_recoverable() -> None:
    with Table() as table:
        for text, pid in java_cases("uniq_id_pid"):
            with table.row(text):
                assert uniq_id_pid(text) == pid


def test_P15_the_time_is_recoverable() -> None:
    with Table() as table:
        for text, offset in java_cases("uniq_id_time_offset_in_month_ms"):
            with table.row(text):
                assert uniq_id_offset_in_month(text) == offset


@pytest.mark.parametrize(("ip", "text"), [(V4, "192.0.2.2"), (V6, "fd00::2")])
def test_P15_an_id_tells_address_process_time_and_counter(ip: bytes, text: str) -> None:
    now = ms(2026, 11, 21, 12, 30, 15) + 678
    with seams.wall_clock(lambda: now):
        ids = UniqueIds(ip, 70_000)
        first, second = ids.next(), ids.next()
    assert len(first) == 24 + 2 * len(ip)
    assert first == first.upper()
    assert uniq_id_ip(first) == text
    assert uniq_id_pid(first) == 70_000 & 0xFFFF
    assert uniq_id_time(first, now=now) == now
    assert uniq_id_offset_in_month(first) == now - ms(2026, 11, 1)
    assert [uniq_id_counter(first), uniq_id_counter(second)] == [0, 1]
    read = decode_unique_id(second, now=now)
    assert read == UniqueId(text, 70_000 & 0xFFFF, read.instance, now, 1)
    assert f"{read.instance:08X}" == second[-20:-12]
    with seams.wall_clock(lambda: now):
        assert decode_unique_id(second) == read


def test_Q1_what_is_no_id_is_a_config_error() -> None:
    others = [None, b"7F00000100002A9F0000000000000000", 5, "", "7F" * 15, "0x" * 16]
    readers = [decode_unique_id, decode_offset_message_id]
    with Table() as table:
        for what, read in itertools.product(others, readers):
            with table.row(f"{read.__name__} of {what!r}"):
                with pytest.raises(ConfigError, match=r"is not an? \w+ message id"):
                    read(what)


def test_an_offset_id_tells_its_parts_by_name() -> None:
    read = decode_offset_message_id("7F00000100002A9F00000000000003E8")
    assert read == OffsetMessageId("127.0.0.1", 10911, 1000)
    assert (read.ip, read.port, read.offset) == ("127.0.0.1", 10911, 1000)


def test_P15_the_month_turns_over() -> None:
    clock = ms(2026, 12, 31, 23, 59, 59) + 999
    with seams.wall_clock(lambda: clock):
        ids = UniqueIds(V4, 1)
        before = ids.next()
        clock += 1
        after = ids.next()
    assert uniq_id_offset_in_month(before) == ms(2027, 1, 1) - 1 - ms(2026, 12, 1)
    assert uniq_id_offset_in_month(after) == 0
    # Read a day later, the older one belongs to the month before.
    later = clock + 86_400_000
    assert uniq_id_time(before, now=later) == clock - 1
    assert uniq_id_time(after, now=later) == clock


def test_P15_a_clock_set_back_a_little_counts_as_the_start_of_the_month() -> None:
    clock = ms(2026, 11, 1)
    with seams.wall_clock(lambda: clock):
        ids = UniqueIds(V4, 1)
        ids.next()
        clock -= 500_000
        assert uniq_id_offset_in_month(ids.next()) == 0
        clock -= 1_000_000
        assert uniq_id_offset_in_month(ids.next()) == 2**32 - 1_500_000


def test_ids_of_two_producers_in_one_process_differ() -> None:
    with seams.wall_clock(lambda: 1_795_000_000_000):
        first, second = UniqueIds(V4, 1), UniqueIds(V4, 1)
        assert first.next() != second.next()


def test_ids_are_unique_over_many_threads() -> None:
    ids = UniqueIds(V4, 1)
    made: list[list[str]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=_fill, args=(ids, to)) for to in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for to in made for text in to}) == 20_000


def _fill(ids: UniqueIds, to: list[str]) -> None:
    to.extend(ids.next() for _ in range(5_000))


def test_the_counter_wraps_at_16_bits() -> None:
    with seams.wall_clock(lambda: timegm((2026, 11, 21, 0, 0, 0)) * 1000):
        ids = UniqueIds(V4, 1)
        made = {ids.next() for _ in range(65_536)}
        assert len(made) == 65_536
        assert uniq_id_counter(ids.next()) == 0


def test_many_ids_at_once_are_like_those_made_one_by_one() -> None:
    times = iter(range(1_795_000_000_000, 1_795_000_001_000))
    with seams.wall_clock(lambda: next(times)):
        ids = UniqueIds(V4, 1)
        made = [ids.next(), *ids.take(70_000), ids.next()]
    assert len(set(made)) == 70_002
    assert [uniq_id_counter(text) for text in made] == [number & 0xFFFF for number in range(70_002)]
    assert len({uniq_id_offset_in_month(text) for text in made}) > 70_000 // 65_536  # so that the counter suffices
    assert ids.take(0) == []


@pytest.mark.parametrize("ip", [b"", b"abc", b"12345"])
def test_an_address_of_another_size_is_refused(ip: bytes) -> None:
    with pytest.raises(ConfigError):
        UniqueIds(ip, 1)
