"""rocketpy bench: put a topic under load and measure latencies."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.cli.traffic.latencies import Latencies
    from rocketpy.cli.traffic.loads import Load, Plan, Received, Span

__all__ = ["bench"]

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
MB = 1e6
ARRIVES_WITHIN = 10.0
"""Seconds without a message before `rocketpy` stops waiting for the rest."""


@click.command("bench", cls=Command)
@click.argument("topic")
@click.option("--messages", type=int, metavar="N", help="Stop after this many messages.")
@click.option(
    "--seconds", type=float, metavar="S", help="Stop after this time; by default 10, or none with --messages."
)
@click.option(
    "--size", type=int, default=1024, show_default=True, metavar="BYTES", help="Size of each body, which is random."
)
@click.option("--rate", type=float, metavar="N", help="Messages per second; as many as possible by default.")
@click.option("--in-flight", type=int, default=64, show_default=True, metavar="N", help="Requests in flight.")
@click.option("--batch", type=int, default=1, show_default=True, metavar="N", help="Messages per request.")
@click.option("--tags", metavar="TAG", help="Tag of the messages.")
@click.option("--consume", is_flag=True, help="Also read the messages, without a group, and measure until they arrive.")
@click.pass_obj
def bench(session: Session, /, topic: str, consume: bool, **options: Any) -> None:
    """Put a topic under load and measure latencies.

    Every second, the command prints a line. With --rate, a latency is counted from when the message was due, so a stall
    shows in all messages that it delays. One process on one core sends about 10,000 messages a second one by one;
    --batch sends more. The messages stay in the topic, so use a separate one.
    """
    from rocketpy.cli.traffic.loads import Plan
    from rocketpy.cli.traffic.running import run
    from rocketpy.wire.names import check_topic

    check_topic(topic)
    if options["messages"] is None and options["seconds"] is None:
        options["seconds"] = 10.0
    plan = Plan(topic=topic, **options)

    async def main() -> None:
        await _run(session, plan, consume=consume)

    run(main)


async def _run(session: Session, plan: Plan, *, consume: bool) -> None:
    from rocketpy import Producer
    from rocketpy.cli.send import producer_settings
    from rocketpy.cli.traffic.loads import Load, Received
    from rocketpy.errors import RequestTimeoutError

    seconds = count(1)

    def each_second(span: Span) -> None:
        if session.as_json:
            session.output.rows((), [{"second": next(seconds), **_row(span)}])
        else:
            session.output.note(_line(span))

    async with Producer(**producer_settings(session)) as producer:
        await producer.queues(plan.topic)  # it must exist: brokers might create it for the first message
        load = Load(producer, plan, each_second)
        received = Received(load.run) if consume else None
        try:
            if received is None:
                await load.send()
            else:
                await _send_and_read(session, load, received, plan.topic)
        finally:  # Ctrl-C too
            _tell(session, load.total, received)
    if load.error is not None:
        raise load.error
    if received is not None and received.latencies.count < load.total.messages:
        missing = counted(load.total.messages - received.latencies.count, "message")
        raise RequestTimeoutError(f"{missing} did not arrive within {ARRIVES_WITHIN:g} s of the one before")


async def _send_and_read(session: Session, load: Load, received: Received, topic: str) -> None:
    """Send the messages, and follow the topic until all have arrived."""
    import trio

    from rocketpy import Admin
    from rocketpy.cli.traffic.printing import note
    from rocketpy.cli.traffic.starts import Start
    from rocketpy.cli.traffic.tailing import Request, Tail
    from rocketpy.services import start_whole

    async with Admin(**session.settings()) as admin:
        tail = Tail(admin, Request(topic=topic, start=Start("end"), follow=True), received.note, note)
        async with trio.open_nursery() as nursery:
            start_whole(nursery, tail.run)
            await tail.ready.wait()
            await load.send()
            await received.wait(load.total.messages, ARRIVES_WITHIN)
            nursery.cancel_scope.cancel()


# --- what is printed -----------------------------------------------------------------------------------


def _tell(session: Session, total: Span, received: Received | None) -> None:
    """Print the totals."""
    if session.as_json:
        row = {"total": True, **_row(total)}
        if received is not None:
            row |= {"arrived": received.latencies.count, "arrival": _milliseconds(received.latencies)}
        session.output.rows((), [row])
        return
    note = session.output.note
    note(f"total in {total.seconds:.1f} s: {_line(total)}")
    if received is not None:
        note(f"arrived: {counted(received.latencies.count, 'message')}, {_times(received.latencies)}")


def _row(span: Span) -> dict[str, Any]:
    seconds = max(span.seconds, 1e-9)
    return {
        "messages": span.messages,
        "bytes": span.size,
        "failed": span.failed,
        "seconds": round(span.seconds, 3),
        "messagesPerSecond": round(span.messages / seconds, 1),
        "megabytesPerSecond": round(span.size / seconds / MB, 3),
        "latency": _milliseconds(span.latencies),
    }


def _milliseconds(latencies: Latencies) -> dict[str, float]:
    found = dict(zip(SHARES, latencies.percentiles(list(SHARES.values())), strict=True))
    times = {"mean": latencies.mean, **found, "max": latencies.longest}
    return {name: round(seconds * 1000, 3) for name, seconds in times.items()}


def _line(span: Span) -> str:
    row = _row(span)
    rates = f"{row['messagesPerSecond']:,.0f} a second, {row['megabytesPerSecond']:.1f} MB/s"
    failed = f", {span.failed} failed" if span.failed else ""
    return f"{counted(span.messages, 'message')}{failed}, {rates}, {_times(span.latencies)}"


def _times(latencies: Latencies) -> str:
    found = _milliseconds(latencies)
    return "ms: " + ", ".join(f"{name} {value:.1f}" for name, value in found.items())
