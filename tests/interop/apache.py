"""One release of Apache RocketMQ: its servers and our Java drivers, ready to be started.

The face of the harness for tests and benchmarks; it imports no pytest. `Apache.resolve("5.3.3")` fills
the cache, the context managers start processes and end them. Every release that keeps the start classes
and the `-c` option can be named; the tests run against the latest of both lines, 5.x and 4.x.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop import class_archive, compiler, loading, probe, servers
from tests.interop.artifacts import Artifacts
from tests.interop.toolchain import missing_tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.interop.servers import Server

VERSION = "5.3.3"
"""The release that ours plays, where the lines differ."""
LINES = (VERSION, "4.9.7")
"""The latest release of each line that is in use."""


def unavailable(version: str = VERSION) -> str | None:
    """What keeps this release from running on this machine, or None."""
    return missing_tools(resolved=Artifacts(version).resolved() is not None)


@dataclass(frozen=True)
class Cluster:
    """A name server and its brokers, all Apache's."""

    name_server: Server
    brokers: tuple[Server, ...]

    @property
    def namesrv(self) -> str:
        """What a client is given."""
        return self.name_server.address

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic on every broker and wait until clients can find it."""
        for each in self.brokers:
            probe.create_topic(each.address, topic, queues=queues)
        probe.wait_route(self.namesrv, topic, brokers=len(self.brokers))


@dataclass(frozen=True)
class Apache:
    """A resolved release."""

    version: str
    jars: tuple[Path, ...]
    options: tuple[str, ...] = ()
    """JVM options of its servers, such as `jvm.QUICK`."""

    @classmethod
    def resolve(cls, version: str = VERSION, *, options: Sequence[str] = ()) -> Apache:
        """Find the jars, downloading them the first time, and then also making the archive of their classes."""
        found = cls(version, Artifacts(version).resolve(), tuple(options))
        class_archive.made(found.jars, lambda lists: loading.load(found, lists))
        return found

    def name_server(
        self, *, overrides: Mapping[str, object] | None = None, heap: int = 512
    ) -> AbstractContextManager[Server]:
        """Run a name server."""
        return servers.name_server(self._launch(heap), overrides=overrides)

    def broker(
        self,
        namesrv: str,
        *,
        name: str = "broker-a",
        overrides: Mapping[str, object] | None = None,
        home: Path | None = None,
        heap: int = 512,
    ) -> AbstractContextManager[Server]:
        """Run a broker that registers at the given name servers, Apache's or ours."""
        return servers.broker(self._launch(heap), namesrv, name=name, overrides=overrides, home=home)

    @contextmanager
    def cluster(
        self, *, brokers: int = 1, overrides: Mapping[str, object] | None = None, heap: int = 512
    ) -> Iterator[Cluster]:
        """Run a name server with brokers `broker-a`, `broker-b`, ..."""
        with ExitStack() as stack:
            head = stack.enter_context(self.name_server(heap=heap))
            names = [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
            started = [self.broker(head.address, name=name, overrides=overrides, heap=heap) for name in names]
            yield Cluster(head, tuple(stack.enter_context(each) for each in started))

    def driver_class_path(self) -> tuple[Path, ...]:
        """Our compiled drivers behind Apache's jars, as an archive of the classes of these wants it."""
        return (*self.jars, compiler.compiled(self.version, self.jars))

    def _launch(self, heap: int) -> servers.Launch:
        return servers.Launch(self.jars, heap, self.options)
