"""Forks in tests: what a function returns in a child, and which sockets a process has."""

from __future__ import annotations

import os
import signal
from pathlib import Path

__all__ = ["in_child", "open_links", "tcp_ports"]


def in_child(function, *, within=20):
    """What a function returns in a child that has some seconds for it, as text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(within)
        report = "nothing"
        try:
            report = str(function())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must see it
            report = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, report.encode())
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as answer:
        return answer.read()


def tcp_ports():
    """The local and the remote port of each TCP socket that this process has open, on Linux."""
    ports = {}
    for table in ("tcp", "tcp6"):
        path = Path("/proc/self/net", table)
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            _, local, remote, *rest = line.split()
            ports[f"socket:[{rest[6]}]"] = (int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16))
    return sorted(ports[link] for link in open_links() if link in ports)


def open_links():
    """What each descriptor of this process stands for, such as ``socket:[4711]``."""
    return [_link(path) for path in list(Path("/proc/self/fd").iterdir())]


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""
