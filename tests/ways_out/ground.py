"""A cluster and its proxies in a trio loop in a thread of its own, so that no end of the portal ends them.

Programs of other processes work proxies over a control port: one line asks, one line of JSON answers.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

import trio

from rocketpy import Message
from rocketpy.wire.names import SCHEDULE_TOPIC, retry_topic
from rocketpy_broker_sim import LocalCluster
from tests.ways_out.proxy import Proxy

_READY_WITHIN = 30.0


class Ground:
    """Runs while the block of `with` does. Its methods are for other threads.

    Args:
        settings: of the cluster.
    """

    def __init__(self, **settings: Any) -> None:
        self.cluster = LocalCluster(**settings)
        self._proxies: dict[str, Proxy] = {}
        self._topics: set[str] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._main), name="ground")
        self._failure: BaseException | None = None
        self.control = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_READY_WITHIN), "the cluster does not start"
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(trio.RunFinishedError):
            self.call(self._nursery.cancel_scope.cancel)
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what has ended the loop, if something has."""
        if self._failure is not None:
            raise self._failure

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        try:
            async with self.cluster, trio.open_nursery() as self._nursery:
                await self._nursery.start(self._serve_control)
                self._ready.set()
        except BaseException as error:  # noqa: BLE001 - raised by `check`
            self._failure = error
            self._ready.set()

    # --- for other threads --------------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        return self.cluster.name_server_addresses

    def broker(self, number: int = 0) -> str:
        """The address of a broker."""
        return self.cluster.brokers[number].address

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a plain function in the loop."""
        return trio.from_thread.run_sync(partial(function, *args, **kwargs), trio_token=self._token)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run an async function in the loop."""
        return trio.from_thread.run(partial(function, *args, **kwargs), trio_token=self._token)

    def proxy(self, target: str) -> Proxy:
        """A proxy of a server, known to the control port by its address."""
        host, port = target.rsplit(":", 1)
        made = Proxy(host, int(port))
        self.run(self._nursery.start, made.serve)
        self._proxies[made.address] = made
        return made

    def make_topic(self, topic: str) -> None:
        """Create a topic that is not there yet."""
        if topic not in self._topics:
            self._topics.add(topic)
            self.run(self.cluster.create_topic, topic)

    def bodies(self, topic: str) -> list[str]:
        """The bodies of the messages of a topic."""
        return [message.body.decode() for message in self.call(self.cluster.messages, topic)]

    def consumed(self, group: str, topic: str) -> int:
        """How many messages of a topic a group has committed."""

        def count() -> int:
            return sum(
                max(0, broker.offsets.query(group, topic, queue_id))
                for broker in self.cluster.brokers
                for queue_id in broker.store.reads.queue_ids(topic)
            )

        return int(self.call(count))

    def given_back(self, group: str) -> int:
        """How many messages wait for another try by a group."""
        waiting = self.call(self.cluster.messages, SCHEDULE_TOPIC)
        known = {message.message_id for message in waiting if retry_topic(group) in message.wire_properties.values()}
        known |= {message.message_id for message in self.call(self.cluster.messages, retry_topic(group))}
        return len(known)

    def brokers_with_group(self, group: str) -> list[str]:
        """The names of the brokers that know a group."""
        return list(self.call(self._brokers_with_group, group))

    def _brokers_with_group(self, group: str) -> list[str]:
        return [broker.config.broker_name for broker in self.cluster.brokers if group in broker.groups]

    def holds_locks(self, group: str) -> bool:
        """Whether a member of a group holds a queue."""
        return any(self.call(broker.clients.locks.holds_any, group) for broker in self.cluster.brokers)

    # --- the control port ---------------------------------------------------------------------------------

    async def _serve_control(self, *, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.control = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        task_status.started()
        await trio.serve_listeners(self._answer, [listener])

    async def _answer(self, stream: trio.SocketStream) -> None:
        async with stream:
            line = bytearray()
            while not line.endswith(b"\n"):
                data = await stream.receive_some()
                if not data:
                    return
                line += data
            answer = self._do(*json.loads(line))
            await stream.send_all(json.dumps(answer).encode() + b"\n")

    def _do(self, what: str, *args: Any) -> Any:
        if what == "later":
            self._nursery.start_soon(self._later, *args)
            return None
        if what == "store":
            self._nursery.start_soon(self.cluster.send, Message(args[0], b"stored by the test"))
            return None
        if what == "brokers with group":
            return self._brokers_with_group(*args)
        if what == "signal":
            os.kill(*args)
            return None
        address, *rest = args
        proxy = self._proxies[address]
        value = getattr(proxy, what)
        return value(*rest) if callable(value) else value

    async def _later(self, seconds: float, what: str, *args: Any) -> None:
        await trio.sleep(seconds)
        with suppress(ProcessLookupError):  # it may have ended meanwhile
            self._do(what, *args)


def ask(control: str, what: str, *args: Any) -> Any:
    """From any process: have something done at a control port; returns when it is done."""
    host, port = control.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(json.dumps([what, *args]).encode() + b"\n")
        with connection.makefile("rb") as answers:
            return json.loads(answers.readline())
