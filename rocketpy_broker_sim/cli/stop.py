"""Stopping servers that run as processes of this user. Plays the part of mqshutdown."""

from __future__ import annotations

import os
import signal

import trio

from rocketpy_broker_sim.cli.logs import log
from rocketpy_broker_sim.cli.run_files import Running, running

__all__ = ["ROLES", "stop"]

ROLES = {"broker": "rocketpy-broker", "namesrv": "rocketpy-namesrv", "sim": "rocketpy-broker-sim"}
"""What can be stopped, and the command that it was started with."""


def stop(role: str, within: float) -> int:
    """Ask every server of a role to stop, and wait until it has; says what it does.

    Args:
        role: one of `ROLES`.
        within: seconds for all of them.

    Returns:
        The exit status: 1 when none runs, or one is not done in time.
    """
    servers = running(role)
    if not servers:
        log.error("no %s of yours runs here", ROLES[role])
        return 1
    asked = [server for server in servers if _ask(server)]
    return 0 if trio.run(_all_ended, asked, within) and len(asked) == len(servers) else 1


def _ask(server: Running) -> bool:
    try:
        os.kill(server.pid, signal.SIGTERM)
    except ProcessLookupError:
        print(f"{_named(server)} has ended by itself")
    except PermissionError as exc:
        log.error("%s may not be stopped by this user: %s", _named(server), exc.strerror)
        return False
    else:
        print(f"{_named(server)} is asked to stop", flush=True)
    return True


def _named(server: Running) -> str:
    return f"{server.name} at {server.address} (pid {server.pid})"


async def _all_ended(servers: list[Running], within: float) -> bool:
    """Wait for the ends; returns whether all came in time."""
    with trio.move_on_after(within):
        for server in servers:
            await trio.to_thread.run_sync(server.wait_ended, abandon_on_cancel=True)
            print(f"{_named(server)} has stopped", flush=True)
        return True
    log.error(
        "not all have stopped within %g s: they answer accepted requests first; a second signal ends them at once",
        within,
    )
    return False
