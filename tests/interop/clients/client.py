"""One client of another language: what its driver can do, and starting it.

Every driver has the same two works: `produce` sends `--count` messages to `--topic` in each of the `--ways` and says
`sent` for each answer and `done`; `consume` says `ready`, then `message` for each delivery, and `stopped` after the end
of standard input.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.interop.drivers import Driver, Event, arguments
from tests.interop.failure import InteropError
from tests.interop.process import JavaProcess
from tests.interop.servers import temporary_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEND_WITHIN = 60.0
LARGE = 20_000
"""The size of a body that is sent in the way "large", which every client compresses."""


@dataclass(frozen=True)
class Client:
    """A client that can be started here.

    Attributes:
        name: For messages.
        command: Starts its driver; the work and its options follow.
        ways: The ways in which it can send, by the names that the drivers share.
        makes_topics: Whether it sends to a topic that no name server knows yet.
        environment: What the driver needs beside the harness's own.
    """

    name: str
    command: tuple[str, ...]
    ways: tuple[str, ...]
    makes_topics: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def running(self, work: str, **options: object) -> Iterator[Driver]:
        """Start the driver; it is killed at the end if it has not finished."""
        with temporary_home(f"{self.name}-{work}".lower()) as home:
            command = [*self.command, work, *arguments(options)]
            process = JavaProcess(f"{self.name} {work}", command, home, environment=self.environment)
            try:
                yield Driver(process)
            finally:
                process.kill()

    def produce(self, namesrv: str, topic: str, group: str, ways: tuple[str, ...], count: int) -> list[Event]:
        """Send so many messages in each of the ways; the answers.

        Raises:
            InteropError: It broke down, or a send failed; the message has what it printed.
        """
        options = {"namesrv": namesrv, "topic": topic, "group": group, "ways": ",".join(ways), "count": count}
        with self.running("produce", **options) as driver:
            driver.wait("done", timeout=SEND_WITHIN)
            driver.process.wait_end(SEND_WITHIN)
            if failed := driver.of("failed"):
                raise InteropError(f"{self.name} could not send to {topic}: {failed}")
            return driver.of("sent")

    @contextmanager
    def consuming(self, namesrv: str, topic: str, group: str, **options: object) -> Iterator[Driver]:
        """Run its push consumer from the first message on; it has started when this yields.

        Args:
            namesrv: Name servers, with semicolons.
            topic: What it subscribes to.
            group: Its group.
            options: `tags` to subscribe, `fail_first` deliveries of each message to fail, `linger` milliseconds in the
                listener after it has told of a message; one that lingers takes one message at a time.
        """
        with self.running("consume", namesrv=namesrv, topic=topic, group=group, **options) as driver:
            driver.wait("ready")
            yield driver


def bodies(way: str, count: int) -> list[str]:
    """The bodies that drivers send in one way, in order."""
    width = LARGE if way == "large" else 0
    return [f"{way}-{number}".ljust(width, ".") for number in range(count)]
