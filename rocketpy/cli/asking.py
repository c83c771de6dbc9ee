"""Asks many things at a time, and reports what failed at the end of the command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["answers", "side_by_side"]

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(ask: Callable[[T], Any], items: Iterable[T]) -> None:
    """Call a function with each item, several at a time, so that all servers that are down cost one timeout."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=16) as pool:
        for _ in pool.map(ask, items):
            pass


def answers(session: Session, names: Iterable[str], ask: Callable[[str], R], doing: str) -> dict[str, R]:
    """What a call returns for each name, several at a time, in the order of the names.

    Failures of some are reported at the end of the command, as those of `Session.partly` are.

    Raises:
        BrokersFailedError: all failed.
        RocketMQError: the only one failed.
    """
    from rocketpy.errors import BrokersFailedError, RocketMQError

    wanted = list(names)
    found: dict[str, R] = {}
    failures: dict[str, RocketMQError] = {}

    def one(name: str) -> None:
        try:
            found[name] = ask(name)
        except RocketMQError as error:
            failures[name] = error

    side_by_side(one, wanted)
    if failures and len(wanted) == 1:
        raise failures[wanted[0]]
    if failures:
        ordered = {name: failures[name] for name in wanted if name in failures}
        error = BrokersFailedError(doing, failures=ordered, done=[name for name in wanted if name in found])
        if not found:
            raise error
        session.failed.append(error)
    return {name: found[name] for name in wanted if name in found}
