"""Our Java drivers as seen from Python: a producer, three kinds of consumers and an admin.

Each has a JVM of its own, unless producers and consumers of the release share one (`jobs`).

They print one JSON object a line (`java/Events.java`); here the lines become dictionaries. Options of the
drivers are given as keywords, `body_size=1024` for `--body-size 1024`; what they mean stands in the Java files.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.interop import jobs, jvm, settings
from tests.interop.failure import InteropError
from tests.interop.process import JavaProcess
from tests.interop.servers import temporary_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.interop.apache import Apache

Event: TypeAlias = dict[str, Any]

READY_SECONDS = 60.0
END_SECONDS = 60.0


@dataclass
class Driver:
    """A running driver and the events it has printed."""

    process: JavaProcess | jobs.Job
    _events: list[Event] = field(default_factory=list)
    _kinds: dict[str, list[Event]] = field(default_factory=dict)
    _read: int = 0

    @property
    def events(self) -> list[Event]:
        """Every event so far, in order."""
        self._take_in()
        return list(self._events)

    def of(self, kind: str) -> list[Event]:
        """The events of one kind so far."""
        self._take_in()
        return list(self._kinds.get(kind, ()))

    def wait(self, kind: str, count: int = 1, timeout: float = READY_SECONDS) -> list[Event]:
        """Wait until there are at least so many events of a kind; all of that kind."""

        def enough() -> bool | None:
            self._take_in()
            return len(self._kinds.get(kind, ())) >= count or None

        try:
            self.process.wait_until(enough, f"{count} {kind!r} event(s)", timeout)
        except InteropError as exc:
            exc.add_note(f"{len(self.of(kind))} {kind!r} event(s) have come")
            raise
        return self.of(kind)

    def finish(self, timeout: float = END_SECONDS) -> list[Event]:
        """Tell it to end, wait for a clean end; all its events."""
        self.process.close_input()
        self.process.wait_end(timeout)
        return self.events

    def _take_in(self) -> None:
        while self._read < len(self.process.lines):
            line = self.process.lines[self._read]
            self._read += 1
            if line.startswith('{"event":'):
                event = json.loads(line)
                self._events.append(event)
                self._kinds.setdefault(event["event"], []).append(event)


@contextmanager
def running(apache: Apache, main: str, *, jvm_options: Sequence[str] = (), **options: object) -> Iterator[Driver]:
    """Start a driver class; it is killed at the end if it has not finished."""
    job = jobs.begun(apache, main, arguments(options), jvm_options)
    if job is not None:
        try:
            yield Driver(job)
        finally:
            job.kill()
        return
    with temporary_home(main.lower()) as home:
        settings.prepare_home(home)
        command = jvm.driver_command(home, apache.driver_class_path(), main, options=jvm_options)
        process = JavaProcess(f"Java {main}", [*command, *arguments(options)], home)
        try:
            yield Driver(process)
        finally:
            process.kill()


@dataclass(frozen=True)
class Sent:
    """What the Java producer said about its messages."""

    results: list[Event]
    failures: list[Event]
    micros: int
    """From the first send to the last answer, without the start of the JVM."""


def java_produce(
    apache: Apache,
    namesrv: str,
    topic: str,
    count: int,
    *,
    timeout: float = 120.0,
    jvm_options: Sequence[str] = (),
    **options: object,
) -> Sent:
    """Send so many messages with Apache's producer and wait for the end of it.

    Raises:
        InteropError: It broke down, or a send failed and `failures_allowed` was not given.
    """
    allowed = bool(options.pop("failures_allowed", False))
    with running(
        apache, "Producer", jvm_options=jvm_options, namesrv=namesrv, topic=topic, count=count, **options
    ) as driver:
        driver.process.wait_end(timeout)
        (done,) = driver.of("done")
        sent = Sent(driver.of("sent"), driver.of("failed"), done["micros"])
        if sent.failures and not allowed:
            raise InteropError(f"{len(sent.failures)} of {count} sends failed, first: {sent.failures[0]}")
        return sent


@contextmanager
def java_transactions(
    apache: Apache, namesrv: str, group: str, topic: str, bodies: Sequence[str] = (), **options: object
) -> Iterator[Driver]:
    """Run Apache's producer of transactions (`java/TransactionProducer.java`); it has sent when this yields."""
    text = ",".join(bodies)
    with running(
        apache, "TransactionProducer", namesrv=namesrv, group=group, topic=topic, bodies=text, **options
    ) as driver:
        driver.wait("ready")
        yield driver


@dataclass
class JavaPushConsumer(Driver):
    """Apache's push consumer with the messages it has printed."""

    @property
    def messages(self) -> list[Event]:
        """The deliveries so far, accepted or not."""
        return self.of("message")

    @property
    def share(self) -> dict[str, list[str]]:
        """Topic to the queues (`broker:id`) it was given last."""
        return {event["topic"]: event["queues"] for event in self.of("assigned")}

    def wait_messages(self, count: int, timeout: float = 60.0) -> list[Event]:
        """Wait for at least so many deliveries."""
        return self.wait("message", count, timeout)

    def wait_share(self, topic: str, queues: int, timeout: float = 60.0) -> list[str]:
        """Wait until its share of a topic is of this size; another member joining changes it."""

        def share() -> list[str] | None:
            mine = self.share.get(topic)
            return mine if mine is not None and len(mine) == queues else None

        return self.process.wait_until(share, f"share of {queues} queues of {topic}", timeout)


@contextmanager
def java_push_consumer(
    apache: Apache,
    namesrv: str,
    group: str,
    topic: str,
    *,
    jvm_options: Sequence[str] = (),
    **options: object,
) -> Iterator[JavaPushConsumer]:
    """Run Apache's push consumer; it has its queues when this yields."""
    with running(
        apache, "PushConsumer", jvm_options=jvm_options, namesrv=namesrv, group=group, topic=topic, **options
    ) as driver:
        consumer = JavaPushConsumer(driver.process)
        consumer.wait("ready")
        yield consumer


@dataclass
class JavaAdmin:
    """Apache's admin client of a name server, one JVM for many commands, and for the clients of other name servers."""

    driver: Driver
    namesrv: str

    def run(self, command: str, timeout: float = 30.0, **arguments: object) -> Any:
        """Execute one command of `java/Admin.java`.

        Raises:
            InteropError: The admin client raised; the message is its exception's.
        """
        before = self._answers()
        process = self.driver.process
        assert isinstance(process, JavaProcess)
        process.write_line(json.dumps({"namesrv": self.namesrv, "command": command, **arguments}))

        def answer() -> Event | None:
            answers = self._answers()
            return answers[len(before)] if len(answers) > len(before) else None

        event = process.wait_until(answer, f"answer to {command}", timeout)
        if event["event"] == "failed":
            raise InteropError(f"{command} {arguments}: {event['error']}")
        return event["value"]

    def mqadmin(self, command: str, **options: object) -> str:
        """What Apache's command `mqadmin` prints, given its options by their letters: `n="127.0.0.1:9876"`."""
        pairs = [text for letter, value in options.items() for text in (f"-{letter}", _spelled(value))]
        printed: str = self.run("mqadmin", arguments=[command, *pairs])
        return printed

    def _answers(self) -> list[Event]:
        return [event for event in self.driver.events if event["event"] in {"result", "failed"}]


@contextmanager
def java_admins(apache: Apache, *, jvm_options: Sequence[str] = ()) -> Iterator[Callable[[str], JavaAdmin]]:
    """Run Apache's admin clients: gives what makes one of a name server."""
    with running(apache, "Admin", jvm_options=jvm_options) as driver:
        yield lambda namesrv: JavaAdmin(driver, namesrv)


def arguments(options: Mapping[str, object]) -> list[str]:
    """Options of a driver as its command line has them."""
    pairs = ((f"--{name.replace('_', '-')}", value) for name, value in options.items())
    return [text for name, value in pairs for text in (name, _spelled(value))]


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def java_lite_pull_consumer(
    apache: Apache, namesrv: str, group: str, topic: str, **options: object
) -> Iterator[JavaPushConsumer]:
    """Run Apache's lite pull consumer; it has its queues when this yields."""
    with running(apache, "LitePullConsumer", namesrv=namesrv, group=group, topic=topic, **options) as driver:
        consumer = JavaPushConsumer(driver.process)
        consumer.wait("ready")
        yield consumer


@contextmanager
def java_pull_consumer(
    apache: Apache, namesrv: str, group: str, topic: str, steps: Sequence[Event], **options: object
) -> Iterator[Driver]:
    """Run Apache's plain pull consumer, which takes the steps (`java/PullConsumer.java`) and ends."""
    written = json.dumps(steps)
    with running(apache, "PullConsumer", namesrv=namesrv, group=group, topic=topic, steps=written, **options) as driver:
        yield driver
