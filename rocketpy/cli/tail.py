"""rocketpy tail: show the last messages of a topic, or all from an offset or a time on, or follow it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Command
from rocketpy.cli.options import brokers_option, tags_option
from rocketpy.cli.values import TIME_HELP

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.cli.traffic.tailing import Request

__all__ = ["tail"]


@click.command("tail", cls=Command, epilog=TIME_HELP)
@click.argument("topic")
@click.option("--follow", "-f", is_flag=True, help="Keep showing messages as they arrive, until Ctrl-C.")
@click.option(
    "--from",
    "start",
    metavar="begin|end|OFFSET|TIME",
    help="Where to begin in each queue; by default, with the last messages of the topic.",
)
@click.option(
    "--count", "-c", type=int, metavar="N", help="Show at most this many messages; by default 10, or all with --from."
)
@tags_option
@click.option("--sql", metavar="EXPR", help="Only messages that match this SQL92 expression.")
@click.option("--key", metavar="KEY", help="Only messages with this key or unique id.")
@brokers_option
@click.option("--queue", "-q", "queues", multiple=True, type=int, metavar="N", help="Only this queue; repeatable.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["pretty", "value", "json", "raw"]),
    help="pretty (default): time, queue, offset, tags, keys and body; value: the bodies, one per line; "
    "json: like --json; raw: the bytes of the bodies and nothing else.",
)
@click.pass_obj
def tail(
    session: Session,
    topic: str,
    follow: bool,
    start: str | None,
    count: int | None,
    tags: str | None,
    sql: str | None,
    key: str | None,
    brokers: tuple[str, ...],
    queues: tuple[int, ...],
    form: str | None,
) -> None:
    """Show the last messages of a topic, or follow it.

    Messages of one queue are shown in order. Without --from, the last messages are sorted by time. The command joins no
    group and commits no offsets, so consumers are not affected.
    """
    from rocketpy.cli.traffic.starts import parsed
    from rocketpy.cli.traffic.tailing import Request

    request = Request(
        topic=topic,
        start=parsed(start),
        count=count,
        follow=follow,
        tags=tags,
        sql=sql,
        key=key,
        brokers=brokers,
        queues=queues,
    )
    _show(session, request, "json" if session.as_json else form or "pretty")


def _show(session: Session, request: Request, form: str) -> None:
    from rocketpy import Admin
    from rocketpy.cli.traffic.formats import format_of
    from rocketpy.cli.traffic.printing import note, printer
    from rocketpy.cli.traffic.running import run
    from rocketpy.cli.traffic.tailing import Tail

    emit = printer(format_of(form, terminal=sys.stdout.isatty()))

    async def main() -> None:
        async with Admin(**session.settings()) as admin:
            await Tail(admin, request, emit, note).run()

    run(main)
