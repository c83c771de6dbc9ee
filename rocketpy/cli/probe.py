"""rocketpy cluster probe: send messages to each broker, and show how long that takes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.cli.live import check_watch, repeated, watch_options
from rocketpy.cli.output import Column, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.admin import BrokerEntry
    from rocketpy.cli.session import Session
    from rocketpy.errors import RocketMQError
    from rocketpy.sync import Producer

__all__ = ["probe"]

_EVERY = 10.0
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_MOST_MESSAGES, _MOST_BYTES = 1_000_000, 4 << 20


def _ms(name: str) -> Column:
    return Column(f"{name} ms", lambda row: "-" if row[name] is None else f"{row[name]:.1f}", True)


_TIMES = (
    named("cluster", "cluster"),
    named("broker", "broker"),
    Column("stored", "stored", True),
    Column("failed", "failed", True),
    *map(_ms, ("mean", *_SHARES, "max")),
)


@click.command("probe", cls=Command)
@click.argument("cluster", required=False)
@click.option("--messages", type=int, default=100, show_default=True, metavar="N", help="Messages to each broker.")
@click.option("--size", type=int, default=128, show_default=True, metavar="BYTES", help="Size of each body.")
@watch_options(_EVERY)
@click.pass_obj
def probe(
    session: Session,
    /,
    cluster: str | None,
    messages: int,
    size: int,
    watch: bool,
    every: float | None,
    times: int | None,
) -> None:
    """Send messages to each master of one or all clusters, one after the other, and show how long that takes.

    They go to the topic that each broker has under its own name, and nobody consumes them. The first message is not
    measured: it finds the way to the broker.
    """
    from rocketpy.cli.send import producer_settings
    from rocketpy.errors import ConfigError
    from rocketpy.sync import Producer

    check_watch(watch, every, times)
    for option, value, most in (("--messages", messages, _MOST_MESSAGES), ("--size", size, _MOST_BYTES)):
        if not 1 <= value <= most:
            raise ConfigError(f"{option} must be 1 to {most}, not {value}")
    with session.admin() as admin, Producer(**producer_settings(session)) as producer:
        masters = [each for each in admin.brokers.list(cluster=cluster) if each.is_master]
        look = partial(_rows, session, producer, masters, messages, size)
        if watch:
            wait = _EVERY if every is None else every
            repeated(session, _TIMES, lambda: (look(), []), empty="no brokers", every=wait, times=times)
        else:
            session.output.rows(_TIMES, look(), empty="no brokers")


def _rows(
    session: Session, producer: Producer, masters: Sequence[BrokerEntry], messages: int, size: int
) -> list[dict[str, Any]]:
    """A row for each broker. Those that fail are reported at the end of the command."""
    from rocketpy.errors import BrokersFailedError

    failures: dict[str, RocketMQError] = {}
    rows = [_row(producer, each, messages, size, failures) for each in masters]
    if failures:
        done = [each.name for each in masters if each.name not in failures]
        session.failed.append(BrokersFailedError("sending to the brokers", failures=failures, done=done))
    return rows


def _row(
    producer: Producer, broker: BrokerEntry, messages: int, size: int, failures: dict[str, RocketMQError]
) -> dict[str, Any]:
    from rocketpy.cli.traffic.latencies import Latencies
    from rocketpy.errors import RocketMQError
    from rocketpy.sync import Message

    found, counts = Latencies(), Counter[str]()
    for number in range(messages + 1):
        began = perf_counter()
        try:
            producer.send(Message(broker.name, b"a" * size))
        except RocketMQError as error:
            failures.setdefault(broker.name, error)
            counts["failed"] += 1
            if not found.count:  # it is not there: the others would wait for it one by one
                break
            continue
        if number:
            found.add(perf_counter() - began)
            counts["stored"] += 1
    return {
        "cluster": broker.cluster,
        "broker": broker.name,
        "stored": counts["stored"],
        "failed": counts["failed"],
        **_milliseconds(found),
    }


def _milliseconds(found: Any) -> dict[str, float | None]:
    if not found.count:
        return dict.fromkeys(("mean", *_SHARES, "max"))
    shares = zip(_SHARES, found.percentiles(list(_SHARES.values())), strict=True)
    times = {"mean": found.mean, **dict(shares), "max": found.longest}
    return {name: round(seconds * 1000, 3) for name, seconds in times.items()}
