"""Loopback ports for servers that have to be told their ports before they start.

Blocks lie below the kernel's ephemeral range, so no outgoing connection takes one between the look
and the bind, and a lock file per block keeps two test runs apart for as long as a block is in use.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.interop.failure import InteropError

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PORT = 20_000
BLOCK_SIZE = 8
BLOCKS = 1_000


@contextmanager
def port_block() -> Iterator[int]:
    """Reserve BLOCK_SIZE free consecutive ports; yields the first."""
    start = os.getpid() % BLOCKS
    for step in range(BLOCKS):
        block = (start + step) % BLOCKS
        base = FIRST_PORT + block * BLOCK_SIZE
        with _lock_file(block) as handle:
            if _taken_by_us(handle) and all(is_free(base + offset) for offset in range(BLOCK_SIZE)):
                yield base
                return
    raise InteropError(
        f"no {BLOCK_SIZE} free ports in a row from {FIRST_PORT} on: is something listening on all of them?"
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a port whose last connections only linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lock_file(block: int) -> IO[bytes]:
    directory = Path(tempfile.gettempdir()) / f"rocketpy-interop-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return (directory / f"{block}.lock").open("a+b")


def _taken_by_us(handle: IO[bytes]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
