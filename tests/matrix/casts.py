"""The consumers and producers that a world may have, and the functions of the user's that they call."""

from __future__ import annotations

import tempfile

from rocketpy import AllocateAveragely, MessageModel
from rocketpy.results import LocalTransactionState

__all__ = ["OF_PULL", "OWN_TYPE", "PRODUCERS", "PULL", "PUSH", "TRANSACTIONS", "Users", "committed", "hooks"]


class Users:
    """The functions of the user: a function that was given is called, and the others do nothing.

    Attributes:
        finished: the topic and the offset of each message that a listener has returned from.
    """

    def __init__(self):
        self._given = {}
        self.finished = []

    def give(self, name, function):
        """Have a function called from now on."""
        self._given[name] = function

    def do(self, name):
        """Do what a plain function of this name is to do."""
        if name in self._given:
            self._given[name]()

    async def do_async(self, name):
        """Do what an async function of this name is to do."""
        if name in self._given:
            await self._given[name]()

    def plain(self, name, answer=None):
        """A plain function of any arguments; `answer` makes of them what it returns."""

        def call(*arguments):
            self.do(name)
            return None if answer is None else answer(*arguments)

        return call

    def awaited(self, name, answer=None):
        """The same as an async function."""

        async def call(*arguments):
            await self.do_async(name)
            return None if answer is None else answer(*arguments)

        return call

    def note_finished(self, message):
        """A listener is about to return."""
        self.finished.append((message.topic, message.queue_offset))


class Store:
    """An offset store of the user's, with plain methods."""

    def __init__(self, users):
        self.offsets = {}
        self.read = users.plain("read", self.offsets.get)
        self.write = users.plain("write", self.offsets.update)


class AsyncStore:
    """The same with async ones."""

    def __init__(self, users):
        self.offsets = {}
        self.read = users.awaited("read", self.offsets.get)
        self.write = users.awaited("write", self.offsets.update)


OWN_TYPE = "application/x-cell"


class OwnFormat:
    """A serializer of the user's. Whatever it writes is read as nothing."""

    name, content_type = "cell", OWN_TYPE

    def __init__(self, users):
        self.encode = users.plain("encode", lambda value: b"x")
        self.decode = users.plain("decode", lambda body: None)


def _broadcast(users):
    return {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": _folder()}


def _folder():
    """Where members of a broadcast keep their offsets, as long as this process lives."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory())
    return _folders[0].name


_folders = []


def hooks(users, of=""):
    """Plain functions for queues that come and go."""
    return {name: users.plain(of + name) for name in ("on_assigned", "on_revoked")}


def _async_hooks(users, of=""):
    return {name: users.awaited(of + name) for name in ("on_assigned", "on_revoked")}


OF_PULL = "of lite pull: "
"""The prefix of the names of its functions."""
OFTEN = {"persist_consumer_offset_interval": 0.02}


def _reporting(users):
    return {"on_statistics": users.plain("on_statistics"), "statistics_interval": 0.02}


def _reporting_async(users):
    return {"on_statistics": users.awaited("on_statistics"), "statistics_interval": 0.02}


PRODUCERS = {
    "": lambda users: {},
    "reporting": _reporting,
    "reporting, async": _reporting_async,
    "own values": lambda users: {"serializer": OwnFormat(users)},
}
"""The settings of producers that differ."""
PUSH = {
    "": lambda users: {},
    "in order": lambda users: {"orderly": True},
    "a broadcast": _broadcast,
    "async hooks": _async_hooks,
    "a strategy": lambda users: {"allocate_strategy": users.plain("strategy", AllocateAveragely())},
    "an offset store": lambda users: {"offset_store": Store(users), **OFTEN},
    "an async offset store": lambda users: {"offset_store": AsyncStore(users), **OFTEN},
    "reporting": _reporting,
    "own values": lambda users: {"serializers": OwnFormat(users)},
}
"""Likewise, of push consumers."""
PULL = {
    "": lambda users: {},
    "elsewhere": lambda users: {},
    "async hooks": lambda users: _async_hooks(users, OF_PULL),
    "an offset store": lambda users: {"offset_store": Store(users)},
    "reporting, async": _reporting_async,
}
"""Likewise, of lite pull consumers."""
PULLER = {"": lambda users: {}, "reporting": _reporting}
"""Likewise, of pull consumers."""


def committed(*_):
    """What executors and checkers of transactions return."""
    return LocalTransactionState.COMMIT


TRANSACTIONS = {
    "": lambda users: {name: users.plain(name, committed) for name in ("executor", "checker")},
    "async": lambda users: {name: users.awaited(name, committed) for name in ("executor", "checker")},
}
"""Likewise, of producers of transactions."""
