"""Addresses: as bytes in stored messages, as "host:port" text everywhere else.

Only spelling is judged here: nothing is looked up. IPv6 addresses stand in brackets in text.
"""

from __future__ import annotations

import ipaddress

from rocketpy.errors import ConfigError, MessageDecodeError

__all__ = ["format_address", "pack_host", "parse_address", "unpack_host"]

_HOST_V4 = 8
_HOST_V6 = 20


def pack_host(ip: str, port: int) -> bytes:
    """Eight bytes for an IPv4 address, twenty for an IPv6 one.

    Raises:
        ConfigError: this is no literal address, or no port.
    """
    if not 0 <= port <= 0xFFFF:
        raise ConfigError(f"port {port} is not between 0 and 65535")
    try:
        address = ipaddress.ip_address(ip)
    except ValueError as exc:
        raise ConfigError(f"{ip!r} is not an IP address: a message can carry only literal addresses") from exc
    return address.packed + port.to_bytes(4, "big")


def unpack_host(host: bytes) -> tuple[str, int]:
    """Address and port of eight or twenty bytes.

    Raises:
        MessageDecodeError: there are more or fewer bytes.
    """
    port = int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == _HOST_V4:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}", port
    if len(host) == _HOST_V6:
        return str(ipaddress.IPv6Address(host[:16])), port
    raise MessageDecodeError(f"a host takes 8 or 20 bytes, not {len(host)}")


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[ipv6]:port"; as in Java, the last colon counts where brackets are missing.

    Raises:
        ConfigError: there is no host, or no port from 1 to 65535.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host:
        raise ConfigError(f"the address {text!r} has no port: write it as host:port, IPv6 as [address]:port")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 0xFFFF):
        raise ConfigError(f"the address {text!r} has no port between 1 and 65535")
    return _checked_host(host, text), int(port)


def _checked_host(host: str, text: str) -> str:
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if bracketed or ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError as exc:
            raise ConfigError(
                f"the address {text!r} is not host:port: write no scheme, several joined by ';', IPv6 as [address]:port"
            ) from exc
        return host
    if not host.isprintable() or not _HOST_STOPS.isdisjoint(host):
        raise ConfigError(f"the address {text!r} names no host")
    return host


# What no host name contains, and what would change the meaning of a list of addresses or of a URL.
_HOST_STOPS = frozenset(" ;,/\\@?#[]<>\"'")


def format_address(host: str, port: int) -> str:
    """The "host:port" that `parse_address` reads."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
