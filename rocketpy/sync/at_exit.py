"""The end of the interpreter: waits for messages that `send_soon` has accepted, and reports those that are lost."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic
from typing import Protocol

from rocketpy.portal import before_end
from rocketpy.sync.unseen import tell_everything

__all__ = ["collected", "forget", "forget_if_collected", "remember"]

_GRACE = 0.1
"""Seconds to wait before saying so. Most of what is under way ends within this time."""

_PATIENCE = 1.0
"""Seconds to wait for done-callbacks before saying so: users' code often takes a moment."""


class Sender(Protocol):
    """Something that may have messages under way.

    Attributes:
        exit_timeout: seconds to wait for them at the end of the process.
    """

    @property
    def exit_timeout(self) -> float: ...

    def wait_idle(self, timeout: float) -> int:
        """Wait until nothing is under way. Returns how many messages are, once the time is over."""

    @property
    def due(self) -> int:
        """Done-callbacks that have not run, and messages under way."""

    @property
    def requests(self) -> int:
        """How many requests are under way."""

    def stop(self) -> int:
        """Take no more messages. Returns how many are under way, including requests."""

    def __str__(self) -> str: ...


_senders: set[Sender] = set()
"""Open senders, and senders whose producer was garbage-collected while messages were in flight."""
_collected: set[Sender] = set()
"""Only the senders whose producer was garbage-collected."""


def remember(sender: Sender) -> None:
    """Wait for it at the end."""
    for other in tuple(_collected):
        forget_if_collected(other)
    _senders.add(sender)


def forget(sender: Sender) -> None:
    """Do not wait for it: it is closed, and has nothing under way."""
    _senders.discard(sender)
    _collected.discard(sender)


def collected(sender: Sender) -> None:
    """Its producer was collected without being closed, and may have messages under way."""
    _collected.add(sender)


def forget_if_collected(sender: Sender) -> None:
    """Forget one whose producer was collected, unless it has something under way."""
    if sender in _collected and not sender.due:
        forget(sender)


def _end() -> None:
    senders = list(_senders)
    try:
        _wait(senders)
    finally:  # also after Ctrl-C, when nobody wants to wait any longer
        for sender in senders:
            count, requests = sender.stop(), sender.requests
            if count > requests:
                what = "1 message" if count - requests == 1 else f"{count - requests} messages"
                were = "was" if count - requests == 1 else "were"
                _say(f"{what} of {sender} {were} lost: the process ended before a broker acknowledged them")
            if requests:
                what = "1 request" if requests == 1 else f"{requests} requests"
                _say(f"{what} of {sender} got no reply before the process ended")
        for sender, count in [(sender, count) for sender in senders if (count := sender.due - sender.stop()) > 0]:
            what = "1 done-callback" if count == 1 else f"{count} done-callbacks"
            _say(f"{what} of {sender} did not run before the process ended")
        tell_everything()


def _wait(senders: list[Sender]) -> None:
    """Wait for all of them at the same time."""
    began = monotonic()
    counts = {sender: sender.wait_idle(began + _GRACE - monotonic()) for sender in senders}
    slow = [sender for sender in senders if sender.due]
    for sender in slow:
        count = counts[sender]
        if not count:
            continue  # only its callbacks are still running, most of which end within a second
        what = "1 message" if count == 1 else f"{count} messages"
        _say(
            f"waiting up to {sender.exit_timeout:g} s for {what} of {sender}: close the producer before the program "
            "ends"
        )
    for sender in slow:
        if not counts[sender]:
            sender.wait_idle(began + min(_PATIENCE, sender.exit_timeout) - monotonic())
            if (count := sender.due) and monotonic() < began + sender.exit_timeout:
                what = "1 done-callback" if count == 1 else f"{count} done-callbacks"
                _say(f"waiting up to {sender.exit_timeout:g} s for {what} of {sender}")
        sender.wait_idle(began + sender.exit_timeout - monotonic())


def _say(text: str) -> None:
    with suppress(Exception):  # there may be no standard error any more
        sys.stderr.write(f"rocketpy: {text}\n")
        sys.stderr.flush()


def _forget_all() -> None:
    _senders.clear()
    _collected.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
before_end(_end)
