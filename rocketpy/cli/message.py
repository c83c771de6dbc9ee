"""rocketpy message: find, read, resend and track messages, and make a consumer consume one now."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli import entries
from rocketpy.cli.command import Group
from rocketpy.cli.options import FILE, queue_options, tags_option, yes_option
from rocketpy.cli.output import Column, named, time
from rocketpy.cli.rows import row
from rocketpy.cli.text import cell, time_text
from rocketpy.cli.values import TIME_HELP, moment
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.sync import Admin

__all__ = ["COLUMNS", "message", "print_messages"]


COLUMNS = (
    time("stored", "storeTimestamp"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("offset", "queueOffset", True),
    named("message id", "messageId"),
    Column("tags", "tags"),
    Column("keys", lambda row: cell(" ".join(row["keys"]) or None)),
    Column("body", lambda row: cell(_text(row))),
)


def _text(row: dict[str, Any]) -> str:
    """The body of a row, in hexadecimal if it is not text."""
    if "bodyError" in row:
        return f"({row['bodyError']})"
    return str(row["body"]) if "body" in row else "0x" + b64decode(row["bodyBase64"]).hex()


def print_messages(session: Session, found: Iterable[MessageExt], *, empty: str = "no messages") -> None:
    """Print messages as a table."""
    from rocketpy.cli.traffic.records import record_of

    session.output.rows(COLUMNS, map(record_of, found), empty=empty)


def _span(begin: str | None, end: str | None) -> tuple[int, int | None]:
    """The times of the command line, in ms since 1970."""
    return 0 if begin is None else moment("the begin", begin), None if end is None else moment("the end", end)


_FOUND_IN = click.option("--topic", "-t", metavar="TOPIC", help="Topic of the message, if the id is its unique id.")


@click.group(cls=Group)
def message() -> None:
    """Find, read, resend and track messages."""


# --- finding -------------------------------------------------------------------------------------------


@message.command("view")
@click.argument("message_id")
@_FOUND_IN
@click.option(
    "--body", "body_file", type=FILE, metavar="FILE", help="Write the body to this file; - is standard output."
)
@click.pass_obj
def view(session: Session, message_id: str, topic: str | None, body_file: str | None) -> None:
    """Show one message, by its offset message id, or by its unique id and topic."""
    with session.admin() as admin:
        found = admin.messages.view(message_id, topic=topic)
    if body_file is not None:
        _write(found, body_file)
    else:
        _print_details(session, found)


def _print_details(session: Session, found: MessageExt) -> None:
    """Print everything about one message, one line for each member, or the JSON that `tail` prints."""
    from rocketpy.cli.traffic.bodies import pretty_value
    from rocketpy.cli.traffic.records import record_of

    record = record_of(found)
    if session.as_json:
        session.output.rows((), [{**record, **_more(found)}])
        return
    members: list[dict[str, Any]] = []
    for name, value in {**record, **_more(found)}.items():
        if name in ("body", "bodyBase64"):
            continue
        if isinstance(value, dict):
            members += [{"name": f"{name}.{key}", "value": each} for key, each in value.items()]
        elif name.endswith("Timestamp"):
            members.append({"name": name, "value": f"{time_text(value)} UTC"})
        else:
            members.append({"name": name, "value": (" ".join(value) or None) if isinstance(value, list) else value})
    session.output.rows((named("member", "name"), named("value", "value")), members)
    if "bodyError" not in record:
        session.output.note("")
        for line in pretty_value(found.body):
            session.output.note(line)


def _more(found: MessageExt) -> dict[str, Any]:
    """What is printed only of a single message."""
    return {
        "bornHost": found.born_host,
        "storeHost": found.store_host,
        "reconsumeTimes": found.reconsume_times,
        "storeSize": found.store_size,
        "systemProperties": dict(found.system_properties),
    }


def _write(found: MessageExt, path: str) -> None:
    """Write the body into a file.

    Raises:
        ConfigError: it cannot be written.
    """
    from rocketpy.cli.traffic.formats import format_of
    from rocketpy.cli.traffic.printing import printer
    from rocketpy.errors import ConfigError

    body = found.body
    if path == "-":
        printer(format_of("raw", terminal=sys.stdout.isatty()))([found])
        return
    try:
        with open(path, "wb") as file:
            file.write(body)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}") from exc


@message.command("query", epilog=TIME_HELP)
@click.argument("topic")
@click.argument("key")
@click.option("--unique", "-u", is_flag=True, help="KEY is the unique id of the message.")
@click.option("--begin", metavar="TIME", help="Only messages stored at this time or later.")
@click.option("--end", metavar="TIME", help="Only messages stored at this time or earlier.")
@click.option("--count", "-c", type=int, default=64, show_default=True, metavar="N", help="Show at most this many.")
@click.pass_obj
def query(session: Session, topic: str, key: str, unique: bool, begin: str | None, end: str | None, count: int) -> None:
    """Find messages by a key or by a unique id."""
    first, last = _span(begin, end)
    with session.admin() as admin:
        if unique:
            found = session.partly(admin.messages.query_unique, topic, key)
        else:
            found = session.partly(admin.messages.query, topic, key, begin=first, end=last, max_messages=count)
    print_messages(session, found, empty="no messages with that key")


@message.command("by-time", epilog=TIME_HELP)
@click.argument("topic")
@click.argument("begin")
@click.argument("end", required=False)
@click.option("--count", "-c", type=int, default=32, show_default=True, metavar="N", help="Show at most this many.")
@tags_option
@click.pass_obj
def by_time(session: Session, topic: str, begin: str, end: str | None, count: int, tags: str | None) -> None:
    """Show the messages that were stored from BEGIN to END, or from BEGIN on."""
    first, last = _span(begin, end)
    with session.admin() as admin:
        found = session.partly(admin.messages.by_time, topic, first, last, max_messages=count, tags=tags)
    print_messages(session, found, empty="no messages from that time")


@message.command("read")
@click.argument("topic")
@queue_options
@click.option("--begin", type=int, default=0, metavar="OFFSET", help="First offset; the oldest message by default.")
@click.option("--end", type=int, metavar="OFFSET", help="Stop before this offset; at the end of the queue by default.")
@click.option("--count", "-c", type=int, default=32, show_default=True, metavar="N", help="Show at most this many.")
@tags_option
@click.pass_obj
def read(
    session: Session, topic: str, broker: str, queue: int, begin: int, end: int | None, count: int, tags: str | None
) -> None:
    """Show messages of one queue."""
    with session.admin() as admin:
        place = _queue_of(admin, topic, broker, queue)
        found = admin.messages.read(place, begin=begin, end=end, max_messages=count, tags=tags)
    print_messages(session, found, empty="no messages there")


message.add_command(entries.entries)


def _queue_of(admin: Admin, topic: str, broker: str, number: int) -> MessageQueue:
    """A queue of a topic.

    Raises:
        TopicNotFoundError: the topic does not exist.
        BrokerNotFoundError: it has no queue on that broker.
        ConfigError: it has no queue of that number there.
    """
    from rocketpy.cli.traffic.choosing import chosen
    from rocketpy.message import MessageQueue

    route = admin.topics.route(topic)
    queues = [MessageQueue(topic, each.broker, id_) for each in route.brokers for id_ in range(each.read_queues)]
    (found,) = chosen(queues, topic, [broker], [number])
    return found


# --- track, consume, resend ----------------------------------------------------------------------


@message.command("track")
@click.argument("message_id")
@_FOUND_IN
@click.pass_obj
def track(session: Session, message_id: str, topic: str | None) -> None:
    """Show what each group of its topic has done with a message."""
    with session.admin() as admin:
        found = admin.messages.track(admin.messages.view(message_id, topic=topic))
    columns = (named("group", "group"), named("status", "status"), named("error", "error"))
    session.output.rows(columns, map(row, found), empty="no group consumes its topic")


@message.command("consume")
@click.argument("message_id")
@_FOUND_IN
@click.option("--group", "-g", required=True, metavar="GROUP", help="Consumer group.")
@click.option("--client", "-i", "client_id", required=True, metavar="CLIENT_ID", help="Member of the group.")
@yes_option
@click.pass_obj
def consume(session: Session, message_id: str, topic: str | None, group: str, client_id: str, yes: bool) -> None:
    """Make a member of a group consume a message now, even if it has consumed it before.

    This neither depends on offsets nor changes them. "rocketpy group members" shows the members.
    """
    from rocketpy.errors import ConfigError

    with session.admin() as admin:
        found = admin.messages.view(message_id, topic=topic)
        session.confirm(f"Make {client_id} consume {_named(found)} again?", yes=yes)
        done = admin.consumers.consume(group, client_id, found)
    columns = (named("outcome", "outcome"), Column("seconds", "seconds", True), named("remark", "remark"))
    session.output.rows(columns, [row(done)])
    if done.outcome is None or not done.outcome.value.endswith(("_SUCCESS", "_COMMIT")):
        raise ConfigError(f"{client_id} did not consume the message: {done.remark or 'see the outcome'}")


@message.command("resend")
@click.argument("message_ids", metavar="MESSAGE_ID...", nargs=-1, required=True)
@_FOUND_IN
@click.option("--to", "target", metavar="TOPIC", help="Topic to send them to, instead of their own.")
@yes_option
@click.pass_obj
def resend(session: Session, message_ids: tuple[str, ...], topic: str | None, target: str | None, yes: bool) -> None:
    """Send stored messages again, to their own topic or to another.

    All groups of the topic receive them again. They keep their unique ids, keys, tags and properties.
    """
    from rocketpy.cli.send import COLUMNS as SENT
    from rocketpy.cli.send import sent_row
    from rocketpy.cli.traffic.printing import note

    with session.admin() as admin:
        found = [admin.messages.view(each, topic=topic) for each in message_ids]
        what = _named(found[0]) if len(found) == 1 else counted(len(found), "message")
        if target is not None:
            admin.topics.route(target)  # it must exist: brokers might create it
        where = target or ", ".join(sorted({each.topic for each in found}))
        session.confirm(f"Send {what} again, to {where}?", yes=yes)
        rows: list[dict[str, Any]] = []
        try:
            rows.extend(sent_row(admin.messages.resend(each, topic=target)) for each in found)  # one by one
        except BaseException:  # Ctrl-C too
            note(f"{len(rows)} of {counted(len(found), 'message')} sent again before this")
            raise
        finally:
            session.output.rows(SENT, rows)


def _named(found: MessageExt) -> str:
    return f"{found.message_id} of {found.topic}"
