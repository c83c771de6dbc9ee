"""Apache's name server and broker as processes: started on free ports, ready when yielded, stopped after.

A broker counts as ready once it has registered at its name server, be that ours or Apache's. A server in a temporary
directory is killed at the end, because an orderly stop of Apache's broker takes 16 s and nobody reads that store
again; `server.process.stop()` and a home of one's own stop it in order.
Not here: which jars are started, and what talks to the servers.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop import jvm, probe, settings
from tests.interop.failure import InteropError
from tests.interop.ports import port_block
from tests.interop.process import JavaProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NAME_SERVER_MAIN = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER_MAIN = "org.apache.rocketmq.broker.BrokerStartup"
UPDATE_BROKER_CONFIG = 25
BOOT_SECONDS = 90.0
REGISTER_SECONDS = 40.0
"""More than the 10 s and 30 s after which a broker registers again by itself."""
STOPS_WITHIN = 90.0
"""A broker of 5.x ends its services one after the other, each within three seconds; killed in between, it has not
written what it has."""


@dataclass(frozen=True)
class Launch:
    """How the JVM of a server is started."""

    class_path: Sequence[Path]
    heap: int = 512
    options: Sequence[str] = ()
    """Further JVM options, such as `jvm.QUICK`."""


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    name: str
    address: str
    process: JavaProcess

    @property
    def store(self) -> Path:
        """Where a broker keeps its messages."""
        return self.process.home / "store"


@contextmanager
def name_server(launch: Launch, *, overrides: Mapping[str, object] | None = None) -> Iterator[Server]:
    """Run an Apache name server."""
    with temporary_home("namesrv") as home, port_block() as port:
        settings.prepare_home(home)
        values = {**settings.name_server_properties(home, port), **(overrides or {})}
        with _booted("Apache name server", launch, home, NAME_SERVER_MAIN, values, JavaProcess.kill) as process:
            server = Server("namesrv", f"{settings.LOOPBACK}:{values['listenPort']}", process)
            with _blamed_on(process):
                probe.wait_serving(server.address)
            yield server


@contextmanager
def broker(
    launch: Launch,
    namesrv: str,
    *,
    name: str = "broker-a",
    overrides: Mapping[str, object] | None = None,
    home: Path | None = None,
) -> Iterator[Server]:
    """Run an Apache broker, registered at the name servers when this yields.

    Args:
        launch: The JVM.
        namesrv: One or more name-server addresses joined by semicolons, Apache's or ours.
        name: Its brokerName.
        overrides: Keys of broker.conf beside or instead of the harness's own.
        home: Keep everything here rather than in a temporary directory, to start again on the same store.
    """
    with _home_or_temporary(home, name) as place, port_block() as base:
        settings.prepare_home(place)
        # Apache also listens on listenPort - 2, so the block's first port is that one.
        own = settings.broker_properties(place, name=name, namesrv=namesrv, listen=base + 2, ha=base + 3)
        values = {**own, **settings.SELDOM_FLUSHED, **(overrides or {})}
        end = JavaProcess.kill if home is None else partial(JavaProcess.stop, timeout=STOPS_WITHIN)
        with _booted(f"Apache broker {name}", launch, place, BROKER_MAIN, values, end) as process:
            with _blamed_on(process):
                listening = f"{settings.LOOPBACK}:{values['listenPort']}"
                known = [_wait_registered(each, name, listening) for each in namesrv.split(";")]
            yield Server(name, known[0], process)


def _wait_registered(namesrv: str, name: str, broker: str) -> str:
    """Wait until a name server knows a broker; the address it knows.

    Apache's broker registers with the name servers that it has reached when it boots, and again 10 s later. A change
    of its permission makes it register with all of them at once.
    """

    def look() -> str | None:
        known = probe.broker_addresses(namesrv).get(name, {}).get("0")
        if known is None:
            probe.call(broker, UPDATE_BROKER_CONFIG, body=b"brokerPermission=6")
        return known

    return probe.eventually(look, f"registration of {name} at {namesrv}", REGISTER_SECONDS)


@contextmanager
def temporary_home(name: str) -> Iterator[Path]:
    """A directory that is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix=f"rocketpy-interop-{name}-")).resolve()
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _home_or_temporary(home: Path | None, name: str) -> Iterator[Path]:
    if home is not None:
        yield home
        return
    with temporary_home(name) as place:
        yield place


@contextmanager
def _booted(
    title: str,
    launch: Launch,
    home: Path,
    main: str,
    values: Mapping[str, object],
    end: Callable[[JavaProcess], object],
) -> Iterator[JavaProcess]:
    config = home / "conf" / "server.properties"
    settings.write_properties(config, values)
    command = jvm.server_command(home, launch.class_path, main, heap=launch.heap, options=launch.options)
    process = JavaProcess(title, [*command, "-c", str(config)], home)
    try:
        process.wait_line(lambda line: "boot success" in line, "its boot success line", BOOT_SECONDS)
        yield process
    finally:
        end(process)


@contextmanager
def _blamed_on(process: JavaProcess) -> Iterator[None]:
    """Put the server's logs beside what the probe says."""
    try:
        yield
    except InteropError as exc:
        raise InteropError(f"{process.name}: {exc}\n{process.report()}") from exc
