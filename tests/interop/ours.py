"""Our own name server and broker for Apache's clients and servers: the commands `rocketpy-namesrv` and
`rocketpy-broker` as processes, started with the files that Apache's are started with.

They listen on free loopback ports and are ready when yielded. At the end they are told to stop, and have to do so in
order, with status 0.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from tests.interop import forks, probe, settings
from tests.interop.apache import Cluster
from tests.interop.failure import InteropError
from tests.interop.process import JavaProcess
from tests.interop.servers import Server, temporary_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BOOT_SECONDS = 60.0
REGISTER_SECONDS = 30.0


@contextmanager
def our_name_server(*, overrides: Mapping[str, object] | None = None) -> Iterator[Server]:
    """Run our name server."""
    with temporary_home("our-namesrv") as home:
        settings.prepare_home(home)
        values = {**settings.name_server_properties(home, 0), **(overrides or {})}
        with _serving("namesrv", "namesrv", home, values) as server:
            yield server


@contextmanager
def our_broker(
    namesrv: str, *, name: str = "broker-a", overrides: Mapping[str, object] | None = None, home: Path | None = None
) -> Iterator[Server]:
    """Run our broker, registered at the name servers when this yields.

    Args:
        namesrv: One or more name-server addresses joined by semicolons, Apache's or ours.
        name: Its brokerName.
        overrides: Keys of broker.conf beside or instead of the harness's own.
        home: Keep everything here rather than in a temporary directory, to start again on the same store.
    """
    with temporary_home(name) if home is None else nullcontext(home) as place:
        settings.prepare_home(place)
        own = settings.broker_properties(place, name=name, namesrv=namesrv, listen=0, ha=0)
        with _serving("broker", name, place, {**own, **(overrides or {})}) as server:
            for each in namesrv.split(";"):
                probe.wait_registered(each, name, REGISTER_SECONDS)
            yield server


@contextmanager
def our_cluster(*, brokers: int = 1, overrides: Mapping[str, object] | None = None) -> Iterator[Cluster]:
    """Run our name server with brokers `broker-a`, `broker-b`, ..."""
    with ExitStack() as stack:
        head = stack.enter_context(our_name_server())
        names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
        started = [our_broker(head.address, name=name, overrides=overrides) for name in names]
        yield Cluster(head, tuple(stack.enter_context(each) for each in started))


@contextmanager
def _serving(command: str, name: str, home: Path, values: Mapping[str, object]) -> Iterator[Server]:
    config = home / "conf" / "server.properties"
    settings.write_properties(config, values)
    log = home / "logs" / settings.LOG_FILE
    program = [command, "-c", str(config), "--log", str(log)]
    # The files by which servers are found have a place of their own here: a user who stops servers must not stop ours.
    environment = {"XDG_RUNTIME_DIR": str(home)}
    process = JavaProcess(f"our {name}", program, home, environment=environment, start=forks.start)
    try:
        line = process.wait_line(lambda text: "boot success" in text, "its boot success line", BOOT_SECONDS)
        yield Server(name, _address(line), process)
    except BaseException:
        process.kill()
        raise
    ended_before = not process.running  # by the test, or by what it tests
    if (status := process.stop()) != 0 and not ended_before:
        raise InteropError(f"our {name} ended with status {status} when it was told to stop\n{process.report()}")


def _address(line: str) -> str:
    found = re.search(r"serves on ([^ ,]+)", line)
    if found is None:
        raise InteropError(f"no address in {line!r}")
    return found[1]
