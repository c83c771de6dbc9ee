"""rocketpy send: send a message, or many from a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.cli.options import FILE
from rocketpy.cli.output import Column, named
from rocketpy.cli.values import moment, pairs, seconds_of

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.cli.traffic.inputs import Pattern
    from rocketpy.cli.traffic.sending import Sending
    from rocketpy.message import MessageQueue
    from rocketpy.producer.producer import Producer
    from rocketpy.results import SendResult

__all__ = ["COLUMNS", "GROUP", "producer_settings", "send", "sent_row"]

GROUP = "rocketpy_cli"
"""The producer group of the commands."""
COLUMNS = (
    Column("status", "status"),
    named("message id", "messageId"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("offset", "queueOffset", True),
)


@click.command("send", cls=Command)
@click.argument("topic")
@click.argument("body", required=False)
@click.option(
    "--file", "-f", "path", type=FILE, metavar="FILE", help="Send this file; - is standard input, the default."
)
@click.option("--lines", is_flag=True, help="Send each line of the input as a message.")
@click.option("--json-lines", is_flag=True, help='Send each line as a message in the format of "rocketpy tail --json".')
@click.option("--tags", metavar="TAG", help="Tag of the message.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Key of the message; repeatable.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="Property of the message; repeatable."
)
@click.option("--sharding-key", metavar="KEY", help="Messages with the same sharding key go to the same queue.")
@click.option("--delay", metavar="TIME", help="Deliver it after a delay, such as 30 (seconds), 15m, 2h or 1d.")
@click.option("--delay-level", type=int, metavar="N", help="Deliver it after the delay of this level.")
@click.option("--deliver-at", metavar="TIME", help="Deliver it at this time, such as 2026-11-29T10:15 (UTC).")
@click.option("--queue", metavar="[BROKER:]N", help="Send it to this queue, in order.")
@click.option("--in-flight", type=int, default=16, show_default=True, metavar="N", help="Requests of lines in flight.")
@click.option("--skip", type=int, default=0, metavar="N", help="Skip this many lines, which have been sent already.")
@click.pass_obj
def send(session: Session, /, topic: str, body: str | None, **options: Any) -> None:
    """Send a message, or many from a file or a pipe.

    The message is BODY, a file or standard input. With --lines or --json-lines, each line of the input is a message. If
    one of them fails, no more are sent, and the command says how many are stored and which line is next.
    """
    from rocketpy.cli.traffic.running import run
    from rocketpy.errors import ConfigError

    pattern = _pattern(topic, options)
    by_line = options["lines"] or options["json_lines"]
    if options["lines"] and options["json_lines"]:
        raise ConfigError("pass --lines or --json-lines, not both")
    if body is not None and (options["path"] is not None or by_line):
        raise ConfigError("pass BODY, or an input with --file, --lines or --json-lines, not both")
    if not 1 <= options["in_flight"] <= 1024:
        raise ConfigError(f"--in-flight must be between 1 and 1024, not {options['in_flight']}")
    if options["skip"] < 0:
        raise ConfigError(f"--skip must not be negative, not {options['skip']}")
    if by_line:
        _send_lines(session, pattern, options)
        return

    async def one() -> SendResult:
        return await _send_one(session, pattern, body, options)

    result = run(one)
    session.output.rows(COLUMNS, [sent_row(result)])


def sent_row(result: SendResult) -> dict[str, Any]:
    """The result of a send as a row."""
    return {
        "status": result.status.value,
        "messageId": result.message_id,
        "offsetMessageId": result.offset_message_id,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "queueOffset": result.queue_offset,
    }


# --- what is to be sent --------------------------------------------------------------------------------


def _pattern(topic: str, options: dict[str, Any]) -> Pattern:
    from rocketpy.cli.traffic.inputs import Pattern
    from rocketpy.wire.names import check_topic

    check_topic(topic)
    return Pattern(
        topic=topic,
        tags=options["tags"],
        keys=options["keys"],
        properties=pairs("--property", options["properties"]),
        timing=_timing(options["delay"], options["delay_level"], options["deliver_at"]),
        sharding_key=options["sharding_key"],
    )


def _timing(delay: str | None, level: int | None, deliver_at: str | None) -> dict[str, Any]:
    from rocketpy.errors import ConfigError

    if (delay is not None) + (level is not None) + (deliver_at is not None) > 1:
        raise ConfigError("pass only one of --delay, --delay-level and --deliver-at")
    if delay is not None:
        return {"delay": seconds_of("--delay", delay)}
    if deliver_at is not None:
        return {"deliver_at": moment("--deliver-at", deliver_at)}
    return {} if level is None else {"delay_level": level}


# --- sending -------------------------------------------------------------------------------------------


def producer_settings(session: Session) -> dict[str, Any]:
    """The settings of a producer of the session. The timeout of a request is that of a send too."""
    settings = {"group": GROUP, **session.settings()}
    return settings if session.timeout is None else {**settings, "send_timeout": session.timeout}


async def _queue(producer: Producer, topic: str, text: str | None) -> MessageQueue | None:
    """The queue that was asked for. In any case the topic must exist, although a broker might create it."""
    from rocketpy.cli.traffic.choosing import chosen
    from rocketpy.errors import ConfigError

    queues = await producer.queues(topic)
    if text is None:
        return None
    broker, _, number = text.rpartition(":")
    if not (number.isdecimal() and number.isascii() and len(number) < 10):
        raise ConfigError(f"--queue must be a number, or a broker and a number as in broker-a:0, not {text!r:.100}")
    found = chosen(queues, topic, [broker] if broker else [], [int(number)])
    if len(found) > 1:
        brokers = ", ".join(f"{each.broker_name}:{each.queue_id}" for each in found)
        raise ConfigError(f"several brokers have a queue {number} of {topic}; choose one of {brokers}")
    return found[0]


async def _send_one(session: Session, pattern: Pattern, body: str | None, options: dict[str, Any]) -> SendResult:
    from rocketpy import Producer
    from rocketpy.cli.traffic import inputs

    if body is not None:
        message = pattern.of_body(body.encode("utf-8", "surrogateescape"))
    else:
        with inputs.opened(options["path"]) as file:
            message = pattern.of_body(await inputs.whole(file))
    async with Producer(**producer_settings(session)) as producer:
        queue = await _queue(producer, pattern.topic, options["queue"])
        return await producer.send(message, queue=queue)


def _send_lines(session: Session, pattern: Pattern, options: dict[str, Any]) -> None:
    """Send the messages of all lines. Say at the end, or if it ends early, what is stored."""
    from time import monotonic

    from rocketpy.cli.traffic.printing import note
    from rocketpy.cli.traffic.running import run

    began = monotonic()
    sendings: list[Sending] = []

    async def main() -> None:
        await _run_lines(session, pattern, options, sendings)

    try:
        run(main)
    except BaseException:  # Ctrl-C too
        for sending in sendings:
            note(sending.state())
        raise
    for sending in sendings:
        _report(session, sending, monotonic() - began)


async def _run_lines(session: Session, pattern: Pattern, options: dict[str, Any], sendings: list[Sending]) -> None:
    from contextlib import aclosing

    from rocketpy import Producer
    from rocketpy.cli.traffic import inputs
    from rocketpy.cli.traffic.progress import progress
    from rocketpy.cli.traffic.sending import Sending

    make = pattern.of_record if options["json_lines"] else pattern.of_body
    with inputs.opened(options["path"]) as file:
        async with Producer(**producer_settings(session)) as producer:
            queue = await _queue(producer, pattern.topic, options["queue"])
            with progress(f"sending to {pattern.topic}", inputs.size_of(file)) as shown:
                skip = options["skip"]
                sending = Sending(producer, in_flight=options["in_flight"], queue=queue, progress=shown, skipped=skip)
                sendings.append(sending)
                async with aclosing(inputs.items(file, make, skip=skip)) as chunks:
                    await sending.run(chunks)


def _report(session: Session, sending: Sending, seconds: float) -> None:
    from rocketpy.cli.traffic.printing import note
    from rocketpy.logs import counted

    if sending.badly:
        note(f"{counted(sending.badly, 'message')} stored less safely than the brokers are configured to")
    if session.as_json:
        row = {"messages": sending.stored, "bytes": sending.size, "seconds": round(seconds, 3)}
        session.output.rows((), [row])
        return
    rate = sending.stored / max(seconds, 1e-9)
    session.output.note(f"{counted(sending.stored, 'message')} stored in {seconds:.1f} s, {rate:,.0f} a second")
