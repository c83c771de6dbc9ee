"""Reads the settings of topics or groups from a JSON file, as mqadmin writes and reads them, and creates each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from rocketpy.cli.rows import row
from rocketpy.cli.text import escaped
from rocketpy.errors import ConfigError, RocketMQError

if TYPE_CHECKING:
    from rocketpy.cli.output import Column
    from rocketpy.cli.session import Session

__all__ = ["GROUPS", "IMPORT_HELP", "TOPICS", "Kind", "create_each", "settings_in"]

IMPORT_HELP: Final = (
    'FILE is JSON, and - is standard input: an array of objects as for "mqadmin {0}", or what "rocketpy cluster export '
    'metadata" or "mqadmin exportMetadata" has written. Settings that are left out have their defaults.'
)
"""For the help of a command that imports; {0} is the command of mqadmin."""

_PERMISSIONS: Final = {0: "", 2: "w", 4: "r", 6: "rw"}


# --- values ------------------------------------------------------------------------------------------------


def _whole(key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{key} must be a whole number, not {value!r:.60}")
    return value


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key} must be true or false, not {value!r:.60}")
    return value


def _permission(key: str, value: Any) -> str:
    found = None if isinstance(value, bool) or not isinstance(value, int) else _PERMISSIONS.get(value)
    if found is None:
        raise ConfigError(f"{key} must be 0 (nothing), 2 (write), 4 (read) or 6 (both), not {value!r:.60}")
    return found


def _minutes(key: str, value: Any) -> int:
    return _whole(key, value) * 60


def _attributes(key: str, value: Any) -> dict[str, str]:
    """Attributes to set. Files of mqadmin have a plus before their names."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ConfigError(f"{key} must be an object of texts, not {value!r:.60}")
    if removed := [name for name in value if name.startswith("-")]:
        raise ConfigError(f'{key}: {removed[0]!r:.60} would be removed: use "update --attribute NAME=" instead')
    return {name.removeprefix("+"): each for name, each in value.items()}


# --- topics and groups -------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What a file has settings of."""

    what: str
    """What one of them is called."""
    name: str
    """The key of its name."""
    table: str
    """The key of all of them by name, in a file that was exported."""
    settings: Mapping[str, tuple[str, Callable[[str, Any], Any]]]
    """By key: the argument of `create`, and what checks and converts a value."""
    fixed: Mapping[str, tuple[Any, ...]]
    """Settings that `create` does not have, by key, with the values that brokers give them in any case."""


TOPICS: Final = Kind(
    what="topic",
    name="topicName",
    table="topicConfigTable",
    settings={
        "writeQueueNums": ("queues", _whole),
        "readQueueNums": ("read_queues", _whole),
        "perm": ("permission", _permission),
        "order": ("order", _flag),
        "attributes": ("attributes", _attributes),
    },
    fixed={"topicFilterType": ("SINGLE_TAG",), "topicSysFlag": (0,)},
)
GROUPS: Final = Kind(
    what="group",
    name="groupName",
    table="subscriptionGroupTable",
    settings={
        "consumeEnable": ("consume", _flag),
        "consumeBroadcastEnable": ("broadcast", _flag),
        "consumeMessageOrderly": ("orderly", _flag),
        "retryMaxTimes": ("max_retries", _whole),
        "retryQueueNums": ("retry_queues", _whole),
        "consumeTimeoutMinute": ("consume_timeout", _minutes),
        "attributes": ("attributes", _attributes),
    },
    fixed={
        "consumeFromMinEnable": (True, False),  # nothing reads it
        "groupRetryPolicy": (None, {}, {"type": "CUSTOMIZED"}),
        "brokerId": (0,),
        "whichBrokerWhenConsumeSlowly": (1,),
        "notifyConsumerIdsChangedEnable": (True,),
        "groupSysFlag": (0,),
        "subscriptionDataSet": (None, []),
    },
)


def settings_in(path: str, kind: Kind) -> dict[str, dict[str, Any]]:
    """The arguments of `create` for all topics or groups of a file, by their names.

    Raises:
        ConfigError: the file cannot be read, or something in it cannot be used.
    """
    shown = "standard input" if path == "-" else path
    try:
        found = json.loads(_text(path))
    except OSError as exc:
        raise ConfigError(f"{shown} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{shown} is not JSON: {exc}") from exc
    if isinstance(found, dict) and isinstance(found.get(kind.table), dict):
        found = [*found[kind.table].values()]
    if not isinstance(found, list) or not found:
        raise ConfigError(f"{shown} has no {kind.what}s: it must be an array, or an object with {kind.table}")
    made: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(found, 1):
        name = each.get(kind.name) if isinstance(each, dict) else None
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{shown}: {kind.what} {number} must be an object with {kind.name}, not {each!r:.60}")
        if name in made:
            raise ConfigError(f"{shown}: the {kind.what} {name:.200} is there twice")
        try:
            made[name] = dict(_arguments(kind, each))
        except ConfigError as error:
            raise ConfigError(f"{shown}: the {kind.what} {name:.200}: {error}") from error
    return made


def _text(path: str) -> bytes:
    if path != "-":
        return Path(path).read_bytes()
    if sys.stdin is None:  # closed by the parent process
        raise ConfigError("standard input is closed: pass a file")
    return sys.stdin.buffer.read()


def _arguments(kind: Kind, given: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in given.items():
        if key in kind.settings:
            argument, convert = kind.settings[key]
            yield argument, convert(key, value)
        elif key in kind.fixed:
            if value not in kind.fixed[key]:
                raise ConfigError(f"rocketpy does not set {key}, here {value!r:.60}: leave it out")
        elif key != kind.name:
            raise ConfigError(f"there is no setting {key!r:.60}: check the spelling")


# --- creating ----------------------------------------------------------------------------------------------


def create_each(
    session: Session, kind: Kind, path: str, create: Callable[..., Iterable[Any]], columns: Iterable[Column]
) -> None:
    """Create all topics or groups of a file, and print their settings on each broker; stop at the first that fails.

    Raises:
        ConfigError: the file cannot be used, and nothing was created.
        RocketMQError: one could not be created. Those before it are printed.
    """
    wanted = settings_in(path, kind)
    rows: list[dict[str, Any]] = []
    done = 0
    try:
        for name, arguments in wanted.items():
            try:
                rows += map(row, create(name, **arguments))
            except ConfigError as error:
                raise ConfigError(f"the {kind.what} {name}: {error}") from error
            done += 1
    except RocketMQError:
        _say(f"{done} of {len(wanted)} {kind.what}s are created; to begin again, pass --exist-ok")
        raise
    finally:
        if rows:
            session.output.rows(tuple(columns), rows)


def _say(text: str) -> None:
    click.echo(escaped(f"rocketpy: {text}"), err=True)
