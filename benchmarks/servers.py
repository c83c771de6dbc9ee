"""A name server and a broker to measure against: ours, or Apache's by way of the interop harness.

Both run as processes of their own with the settings they come with; the store lies in a temporary directory.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.frames import GET_ROUTE, Wire, create_topic_frame, frame
from benchmarks.processes import Child
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from tests.interop.apache import Apache

VISIBLE_WITHIN = 20.0
BOOT_WITHIN = 300.0
"""A broker with a large store has much to read."""
PATIENCE = {"waitTimeMillsInSendQueue": 5_000}
"""A disk that pauses shall make a figure smaller, not refuse messages; the harness gives Apache's broker the same."""
APACHE_SETTINGS = {
    # The harness makes files small for tests; these are Apache's own sizes again.
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 300_000 * 20,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
APACHE_OPTIONS = ("-Dtls.server.mode=permissive",)
"""As it is where nobody says otherwise; the harness turns TLS off, because making a certificate takes seconds."""
APACHE_WARM_TURNS = 4
"""A broker in a JVM takes three times its later CPU for a message until the optimizing compiler has seen enough."""


@dataclass(frozen=True)
class Site:
    """Servers that are up.

    Attributes:
        stop_broker: Sends SIGTERM to the broker; the seconds until it was gone.
    """

    namesrv: str
    broker: str
    broker_pid: int
    namesrv_pid: int
    stop_broker: Callable[[], float]

    def create_topic(self, topic: str, queues: int) -> None:
        """Create a topic and wait until clients find it."""
        with Wire(self.broker) as wire:
            wire.ask(create_topic_frame(topic, queues))
        deadline = time.monotonic() + VISIBLE_WITHIN
        with Wire(self.namesrv) as wire:
            while not _has_route(wire, topic):
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"no route of {topic} at {self.namesrv} within {VISIBLE_WITHIN:g} s")
                time.sleep(0.02)


def _has_route(wire: Wire, topic: str) -> bool:
    try:
        wire.ask(frame(GET_ROUTE, {"topic": topic}))
    except BenchmarkError:
        return False
    return True


@dataclass(frozen=True)
class Servers:
    """A make of servers.

    Attributes:
        name: In the plan.
        title: For readers.
        run: Runs a pair of them.
        warm_turns: How often raw loops drive them in every way before anything is measured.
    """

    name: str
    title: str
    run: Callable[[], AbstractContextManager[Site]]
    warm_turns: int = 1


# --- ours ------------------------------------------------------------------------------------------------


@contextmanager
def _our_pair(tree: Path | None) -> Iterator[Site]:
    directory = tempfile.mkdtemp(prefix="rocketpy-bench-")
    children: list[Child] = []
    try:
        file = write_settings(directory, {})
        children.append(namesrv := Child("-m", "rocketpy_broker_sim.cli.namesrv", "-c", file, tree=tree))
        name_server = serving_address(namesrv)
        file = write_settings(
            directory, {**PATIENCE, "namesrvAddr": name_server, "storePathRootDir": f"{directory}/store"}
        )
        children.append(broker := Child("-m", "rocketpy_broker_sim.cli.broker", "-c", file, tree=tree))
        yield Site(name_server, serving_address(broker), broker.pid, namesrv.pid, broker.stop)
    finally:
        for child in children:
            child.kill()
        shutil.rmtree(directory, ignore_errors=True)


def write_settings(directory: str, values: Mapping[str, object]) -> str:
    """A file that our commands and Apache's read alike; everything on free ports of this machine."""
    path = Path(directory) / f"{len(values)}.conf"
    lines = {"bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "listenPort": 0, **values}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), "utf-8")
    return str(path)


def serving_address(server: Child) -> str:
    """Where it serves, out of the line that it prints then."""
    line = server.line(BOOT_WITHIN)
    found = re.search(r"serves on ([^\s,]+)", line)
    if found is None:
        raise BenchmarkError(f"a server does not say where it serves: {line}")
    return found[1]


def ours(tree: Path | None = None) -> Servers:
    """Those of a tree; of this one, as it is installed, when None."""
    return Servers("ours", "rocketpy_broker_sim", partial(_our_pair, tree))


OURS = ours()


# --- Apache's --------------------------------------------------------------------------------------------


def apache_release() -> Apache | str:
    """Apache's release that ours is measured beside, or the reason why it cannot be had here."""
    from tests.interop.apache import Apache, unavailable
    from tests.interop.failure import InteropError

    missing = unavailable()
    if missing is not None:
        return missing
    try:
        return Apache.resolve(options=APACHE_OPTIONS)
    except InteropError as error:
        return str(error)


def apache() -> Servers | str:
    """Apache's servers, or the reason why they cannot be had here."""
    from tests.interop.failure import InteropError

    release = apache_release()
    if isinstance(release, str):
        return release

    @contextmanager
    def pair() -> Iterator[Site]:
        with translated(InteropError), release.cluster(overrides=APACHE_SETTINGS) as cluster:
            (broker,) = cluster.brokers
            namesrv = cluster.name_server.process.pid

            def stop() -> float:
                began = time.monotonic()
                broker.process.stop()
                return time.monotonic() - began

            yield Site(cluster.namesrv, broker.address, broker.process.pid, namesrv, stop)

    return Servers("apache", apache_title(release), pair, APACHE_WARM_TURNS)


def apache_title(release: Apache) -> str:
    """Its name in tables."""
    return f"Apache RocketMQ {release.version}"


@contextmanager
def translated(kind: type[Exception]) -> Iterator[None]:
    """Errors of the harness as ours: one figure is lost then, not the run."""
    try:
        yield
    except kind as error:
        raise BenchmarkError(str(error)) from error
