"""Addresses as bytes and as text."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.wire.hosts import format_address, pack_host, parse_address, unpack_host
from tests.strategies import PORTS, ipv4, ipv6
from tests.tables import Table


@given(ipv4(), PORTS)
def test_an_ipv4_host_takes_eight_bytes(ip: str, port: int) -> None:
    packed = pack_host(ip, port)
    assert len(packed) == 8
    assert unpack_host(packed) == (ip, port)


@given(ipv6(), PORTS)
def test_an_ipv6_host_takes_twenty_bytes(ip: str, port: int) -> None:
    packed = pack_host(ip, port)
    assert len(packed) == 20
    assert unpack_host(packed) == (ip, port)


@pytest.mark.parametrize(("ip", "port"), [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", -1), ("1.2.3.4", 65536)])
def test_what_is_no_address_is_refused(ip: str, port: int) -> None:
    with pytest.raises(ConfigError):
        pack_host(ip, port)


def test_a_host_of_another_size_is_refused() -> None:
    with Table() as table:
        for size in [0, 1, 4, 7, 9, 16, 19, 21]:
            with table.row(size):
                with pytest.raises(MessageDecodeError):
                    unpack_host(bytes(size))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" broker-1.example.org:1 ", ("broker-1.example.org", 1)),
        ("my_host:65535", ("my_host", 65535)),
        ("[::1]:10911", ("::1", 10911)),
        ("[fe80::1%eth0]:10911", ("fe80::1%eth0", 10911)),
        ("fe80:0:0:0:0:0:0:1:9876", ("fe80:0:0:0:0:0:0:1", 9876)),
    ],
)
def test_addresses_are_read(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


def test_what_is_no_address_with_a_port_is_refused() -> None:
    rows = [
        "", ":", "host", "host:", ":9876", "host:0", "host:65536", "host:-1", "host:+1", "host: 1", "host:1_0",
        "host:٣",
        "[::1]", "[::1", "[::1]9876", "[]:1", "[127.0.0.1]:1", "::1", "a:b:1", "a;b:1", "a b:1", "a,b:1", "http://h:80",
        "user@h:80", "h\0:80", "h\n:80", "host:99999999999999999999",
    ]  # fmt: skip
    with Table() as table:
        for text in rows:
            with table.row(repr(text)):
                with pytest.raises(ConfigError):
                    parse_address(text)


@given(ipv4() | ipv6() | st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True), st.integers(1, 65535))
def test_what_is_formatted_can_be_read(host: str, port: int) -> None:
    assert parse_address(format_address(host, port)) == (host, port)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_config_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ConfigError:
        return
    assert host
    assert 1 <= port <= 65535
    if ":" in host:
        ipaddress.IPv6Address(host)
