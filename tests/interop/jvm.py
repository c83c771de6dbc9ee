"""Command lines and environments of the JVMs: what a server needs, what a short-lived driver needs.

Servers reach into java.base (mapped-buffer cleaning, Netty), which Java 17 only allows by name. Every
JVM gets a temporary `user.home`, because both versions of RocketMQ write logs and stores below it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.interop import class_archive
from tests.interop.failure import InteropError
from tests.interop.toolchain import tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For tests: less compiling and fewer threads on a small machine. Benchmarks leave it out."""

ROCKETMQ_HEADERS = ("-Drocketmq.serialize.type=ROCKETMQ",)
"""Makes a driver or a server speak with binary headers instead of JSON."""

_MODULE_ACCESS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)
_NO_TLS = "-Dtls.server.mode=disabled"
"""Apache's servers make a certificate of their own at start, 3 of 5 seconds; tests of TLS set the mode themselves."""

_EAGER = "-Drocketmq.client.rebalance.waitInterval=1000"
"""Apache's clients look for work every 20 s; a group that has to wait for that makes a test no better."""

_INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "TZ", "JAVA_HOME")


def server_command(
    home: Path, class_path: Sequence[Path], main: str, *, heap: int, options: Sequence[str]
) -> list[str]:
    """The command of a name server or broker with a fixed heap of so many MiB; of a doubled -D the last wins."""
    shared = class_archive.options(class_path)
    return _command(
        home, class_path, main, [*shared, f"-Xms{heap}m", f"-Xmx{heap}m", *_MODULE_ACCESS, _NO_TLS, *options]
    )


def driver_command(home: Path, class_path: Sequence[Path], main: str, *, options: Sequence[str]) -> list[str]:
    """The command of one of our Java drivers, tuned to start quickly."""
    shared = class_archive.options(class_path)
    return _command(home, class_path, main, [*shared, "-Xmx256m", *QUICK, *_MODULE_ACCESS, _EAGER, *options])


def client_command(home: Path, class_path: Sequence[Path], main: str) -> list[str]:
    """The command of a client as users start it: both compilers, the collector of the machine, RocketMQ's own waits."""
    return _command(home, class_path, main, ["-Xmx512m", *_MODULE_ACCESS])


def environment(home: Path) -> dict[str, str]:
    """A small environment: settings of the person at the keyboard (NAMESRV_ADDR, ...) stay out."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**kept, "HOME": str(home), "ROCKETMQ_HOME": str(home)}


def _command(home: Path, class_path: Sequence[Path], main: str, options: Sequence[str]) -> list[str]:
    java = tool("java")
    if java is None:
        raise InteropError("no java on PATH")
    logback = home / "conf" / "logback.xml"
    common = [
        "-Xshare:auto",
        "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true",
        "-Dfile.encoding=UTF-8",
        f"-Duser.home={home}",
        f"-Drmq.logback.configurationFile={logback.as_uri()}",
        f"-Drocketmq.client.logRoot={home / 'logs'}",
    ]
    return [java, *common, *options, "-cp", os.pathsep.join(map(str, class_path)), main]
