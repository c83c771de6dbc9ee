"""rocketpy topic traffic: show how much of topics is stored and consumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.asking import side_by_side
from rocketpy.cli.command import Command
from rocketpy.cli.output import Column, named, rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketpy.admin import TopicTraffic
    from rocketpy.cli.session import Session
    from rocketpy.sync import Admin

__all__ = ["traffic"]

_TRAFFIC = (
    named("topic", "topic"),
    named("group", "group"),
    Column("lag", "lag", True),
    rate("in/s", "putRate"),
    rate("out/s", "getRate"),
    Column("in, a day", "puts", True),
    Column("out, a day", "gets", True),
)


@click.command("traffic", cls=Command)
@click.argument("topic", required=False)
@click.option("--active", is_flag=True, help="Only what was stored or consumed in the last day.")
@click.pass_obj
def traffic(session: Session, topic: str | None, active: bool) -> None:
    """Show how much of one or all topics is stored, how much each group consumes, and how far it is behind.

    Rates are those of the last minute. Brokers note the longer spans as they go: of a young topic, "a day" is its last
    hour or minute.
    """
    with session.admin() as admin:
        if topic is not None:
            found: Sequence[TopicTraffic] = [session.partly(admin.topics.traffic, topic)]
        else:
            found = _of_all(session, admin)
    rows = [each for one in found for each in _rows(one) if not active or each["puts"] or each["gets"]]
    session.output.rows(_TRAFFIC, rows, empty="no traffic" if active else "no topics")


def _of_all(session: Session, admin: Admin) -> list[TopicTraffic]:
    """The traffic of all topics. Brokers that fail are reported once, at the end of the command."""
    from rocketpy.errors import BrokersFailedError, RocketMQError, TopicNotFoundError

    names = admin.topics.list()
    found: dict[str, TopicTraffic] = {}
    failures: dict[str, RocketMQError] = {}
    done: set[str] = set()

    def ask(name: str) -> None:
        try:
            found[name] = admin.topics.traffic(name)
        except TopicNotFoundError:  # deleted meanwhile
            return
        except BrokersFailedError as error:
            failures.update(error.failures)
            done.update(error.done)
            if error.done:
                found[name] = error.result
        except RocketMQError as error:
            failures[f"the brokers of {name}"] = error

    side_by_side(ask, names)
    if failures:
        doing = "asking for the traffic of the topics"
        error = BrokersFailedError(doing, failures=failures, done=sorted(done - failures.keys()))
        if not found:
            raise error
        session.failed.append(error)
    return [found[name] for name in names if name in found]


def _rows(found: TopicTraffic) -> Iterator[dict[str, Any]]:
    """A row for each group, or one without a group."""
    stored = {"topic": found.topic, "putRate": found.put_rate, "puts": found.puts}
    for each in found.groups:
        yield {**stored, "group": each.group, "lag": each.lag, "getRate": each.get_rate, "gets": each.gets}
    if not found.groups:
        yield {**stored, "group": None, "lag": None, "getRate": None, "gets": None}
