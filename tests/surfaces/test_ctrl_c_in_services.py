"""Ctrl-C strikes the main task and functions of the user's, never a background task: all closes in good order."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
import trio

from rocketpy import (
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
)
from rocketpy_broker_sim import LocalCluster

LIBRARY = re.compile(r"/rocketpy(_broker_sim)?/")
CALLERS = {"_make_calls", "call_in_this_loop"}
"""The functions that call functions of the user's."""


class Watch:
    """Notes which of the library's functions may be struck by Ctrl-C in a task that the library has started."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        """The functions that begin the tasks in which they ran."""
        self.looked_at: set[tuple[CodeType, CodeType]] = set()
        self._busy = False

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or self._busy or not LIBRARY.search(frame.f_code.co_filename):
            return
        self._busy = True
        try:
            self._look(frame)
        except RuntimeError:
            pass  # between two tasks
        finally:
            self._busy = False

    def _look(self, frame: FrameType) -> None:
        root = trio.lowlevel.current_task().coro.cr_code
        key = root, frame.f_code
        if key in self.looked_at or not LIBRARY.search(root.co_filename) or CALLERS & set(_names(frame)):
            return
        self.looked_at.add(key)
        if not trio.lowlevel.currently_ki_protected():
            self.open.add(f"{root.co_filename}: {root.co_qualname}")


def _names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()
    sys.setprofile(watch)
    try:
        yield watch
    finally:
        sys.setprofile(None)


@pytest.mark.slow
async def test_no_background_task_is_struck_but_listeners_and_checkers_are() -> None:
    protected: dict[str, bool] = {}
    received = trio.Event()

    async def listen(message: MessageExt) -> None:
        protected[message.topic] = trio.lowlevel.currently_ki_protected()
        if len(protected) == 4:
            received.set()

    async def check(message: MessageExt) -> LocalTransactionState:
        protected["checked"] = trio.lowlevel.currently_ki_protected()
        return LocalTransactionState.COMMIT

    async def execute(message: Message, argument: object) -> LocalTransactionState:
        protected["executed"] = trio.lowlevel.currently_ki_protected()
        return LocalTransactionState.UNKNOWN

    with watching() as watch:
        async with LocalCluster(transaction_check_interval=200, transaction_time_out=100) as cluster:
            await _use(cluster.name_server_addresses, listen, check, execute, received)
    assert protected == dict.fromkeys(("Plain", "Checked", "checked", "executed"), False)
    assert len(watch.looked_at) > 600, "clients and servers have worked under its eyes"
    assert sorted(watch.open) == [], "decorate what begins these tasks with trio.lowlevel.enable_ki_protection"


async def _use(servers: str, listen: Any, check: Any, execute: Any, received: trio.Event) -> None:
    first = "CONSUME_FROM_FIRST_OFFSET"
    async with (
        Producer("pg", namesrv=servers, linger=0.005) as producer,
        TransactionProducer("tg", namesrv=servers, checker=check, executor=execute) as transactions,
        LitePullConsumer("lite", namesrv=servers, consume_from_where=first) as lite,
        PushConsumer("g", namesrv=servers, consume_from_where=first) as consumer,
    ):
        await producer.send(Message("Plain", b"x"))
        await transactions.send_in_transaction(Message("Checked", b"x"))
        consumer.subscribe("Plain", listen)
        consumer.subscribe("Checked", listen)
        lite.subscribe("Plain")
        with trio.fail_after(60):
            assert [message.body for message in await lite.poll(30)] == [b"x"]
            await received.wait()
