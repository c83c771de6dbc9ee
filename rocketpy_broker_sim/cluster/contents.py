"""What a test puts into a cluster, finds in it, waits for, and lets go wrong. The other half of `LocalCluster`.

It needs no client. Only brokers that run are looked at: what lies in one that is stopped is there again when it is
started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import ConfigError, ConnectionLostError, RequestTimeoutError
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import check_group, check_topic, dlq_topic
from rocketpy_broker_sim.cluster.arguments import check_message, check_number, check_slot, checked_seconds
from rocketpy_broker_sim.cluster.stored import count_messages, put, read_topic
from rocketpy_broker_sim.cluster.waiting import WaitTimeoutError, no_group, no_topic, wait_consumed
from rocketpy_broker_sim.faults import SendFaults

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.broker.tables.locks import HeldLock
    from rocketpy_broker_sim.cluster.server_slot import ServerSlot
    from rocketpy_broker_sim.namesrv import NameServer

__all__ = ["TIMEOUT", "Contents"]

TIMEOUT = 10.0
"""Seconds that the waits take at most when nothing else is said."""
_KNOWN_WITHIN = 30.0
_SHOWN = 5


class Contents:
    """The contents of the brokers at some slots, which name servers at others know."""

    def __init__(self, brokers: Sequence[ServerSlot[Broker]], name_servers: Sequence[ServerSlot[NameServer]]) -> None:
        self._brokers = brokers
        self._name_servers = name_servers
        self._faults = SendFaults()
        self._news: trio.Event | None = None
        self._listening: list[Broker] = []
        self._sent = 0

    def _running(self) -> list[Broker]:
        """The brokers that run.

        Raises:
            ConfigError: the whole cluster does not.
        """
        self._nursery()
        return [slot.server for slot in self._brokers if slot.is_ready]

    def _nursery(self) -> trio.Nursery:
        """Where tasks of the cluster run.

        Raises:
            ConfigError: it does not run.
        """
        raise ConfigError("the cluster does not run: use it inside `with` or `async with`")

    # --- topics and messages ---------------------------------------------------------------------------

    async def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """Create a topic at every broker that runs, or change its number of queues.

        Returns when the name servers know it, so that producers and consumers find it at once.

        Raises:
            ConfigError: the name or the number is not usable, or no broker runs.
        """
        check_topic(topic)
        check_number(f"the number of queues of {topic}", queues, 1, 1024)
        brokers = self._running()
        if not brokers:
            raise ConfigError(f"no broker runs that could hold {topic}: start one first")
        if any(broker.topics.is_system(topic) for broker in brokers):
            raise ConfigError(f"{topic} is a topic of the system's own: choose another name")
        for broker in brokers:
            broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
        await self._wait_known(topic, queues)

    async def _wait_known(self, topic: str, queues: int = 0) -> None:
        """Return when every name server tells clients of the topic; of that many queues, where a number is given."""
        servers = [slot.server for slot in self._name_servers if slot.is_ready]
        with trio.move_on_after(_KNOWN_WITHIN) as scope:
            for broker in self._running():
                name = broker.config.broker_name

                def knows(addresses: set[str], name: str = name) -> bool:
                    known = [server.routes.queues.get(topic, {}).get(name) for server in servers]
                    return all(each is not None and queues in (0, each.write_queue_nums) for each in known)

                if broker.registration is not None:
                    await broker.registration.wait_until(knows)
        if scope.cancelled_caught:
            raise RequestTimeoutError(f"the name servers do not know {topic} within {_KNOWN_WITHIN:g} s")

    async def send(self, message: Message) -> str:
        """Store a message without a producer; returns its id.

        Queues take turns; messages with equal sharding keys go to one queue. No fault keeps it from being stored.

        Raises:
            ConfigError: no broker runs, or the message asks for what this broker does not do.
            TopicNotExistError: there is no such topic, and topics are not made on first use.
        """
        check_message(message)
        message_id = put(self._running(), message, self._sent)
        self._sent += 1
        await self._wait_known(message.topic)
        return message_id

    def messages(self, topic: str) -> list[MessageExt]:
        """Every message of a topic, in the order in which they were stored; nothing is consumed by that.

        A topic that does not exist holds none.
        """
        check_topic(topic)
        return read_topic(self._running(), topic)

    def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages that a group could not consume, however often it tried."""
        check_group(group)
        return self.messages(dlq_topic(group))

    def queue_locks(self, group: str) -> dict[MessageQueue, HeldLock]:
        """Which member of a group has locked which queue, and for how long; only orderly consumers lock queues.

        Raises:
            ConfigError: the name is not usable, or the cluster does not run.
        """
        check_group(group)
        return {queue: lock for broker in self._running() for queue, lock in broker.clients.locks.held(group).items()}

    # --- waiting ---------------------------------------------------------------------------------------

    async def wait_messages(
        self, topic: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a topic holds at least so many messages; returns all that it holds.

        Raises:
            ConfigError: an argument is not usable, or the cluster does not run.
            WaitTimeoutError: it holds fewer after `timeout` seconds.
        """
        check_topic(topic)
        return await self._wait_messages(topic, count, timeout, lambda: no_topic(self._running(), topic))

    async def _wait_messages(
        self, topic: str, count: int, timeout: float | timedelta, reason: Callable[[], str]
    ) -> list[MessageExt]:
        check_number("count", count)
        seconds = checked_seconds("timeout", timeout)
        with trio.move_on_after(seconds):
            while count_messages(self._running(), topic) < count:
                await self._next_arrival()
        found = self.messages(topic)
        if len(found) < count:
            shown = [repr(message) for message in found[-_SHOWN:]]
            reasons = [reason() if self._running() else "no broker runs: start one"]
            missing = shown or [text for text in reasons if text]
            more = ", the last of them:" if shown else ":" if missing else ""
            text = f"{topic} has {len(found)} of {count} messages after {seconds:g} s{more}"
            raise WaitTimeoutError(text, missing=missing, timeout=seconds)
        return found

    async def wait_dead_letters(
        self, group: str, count: int = 1, *, timeout: float | timedelta = TIMEOUT
    ) -> list[MessageExt]:
        """Wait until a group has at least so many dead letters; returns them all.

        Raises:
            WaitTimeoutError: there are fewer after `timeout` seconds.
        """
        check_group(group)
        return await self._wait_messages(dlq_topic(group), count, timeout, lambda: no_group(self._running(), group))

    async def wait_consumed(self, group: str, topic: str, *, timeout: float | timedelta = TIMEOUT) -> None:
        """Wait until a group has consumed everything of a topic, messages that are to be tried again included.

        What has gone to the dead letters is done with. A group that nobody has seen yet, and a topic that is not
        there, are waited for too: the group has to subscribe the topic, or to have consumed it. Of a topic that is
        empty such a group has consumed everything.

        Raises:
            ConfigError: an argument is not usable, the cluster does not run, or the group broadcasts: then each of its
                members keeps its positions to itself.
            WaitTimeoutError: something is left after `timeout` seconds, or the group or the topic has not come;
                `missing` of the error says what.
        """
        check_group(group)
        check_topic(topic)
        seconds = checked_seconds("timeout", timeout)
        await wait_consumed(self._running, group, topic, seconds, self._next_arrival)

    async def _next_arrival(self) -> None:
        if self._news is None:
            self._news = trio.Event()
        for broker in self._running():
            self._listen(broker)
        await self._news.wait()

    def _listen(self, broker: Broker) -> None:
        """Hear of the messages of a broker, from now on."""
        if broker in self._listening:
            return
        broker.storing.turn.subscribe(lambda arrival: self._note_news())
        self._listening = [broker, *(known for known in self._listening if known in self._running())]

    def _note_news(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set()

    def _opened(self, broker: Broker, number: int) -> None:
        """A broker runs, perhaps again: with its messages, and with the faults that are left."""
        if self._faults.is_used:
            self._faults.attach(broker, number)
        self._note_news()

    # --- what goes wrong -------------------------------------------------------------------------------

    def refuse_sends(self, times: int = 1, *, code: int = ResponseCode.SYSTEM_BUSY, broker: int | None = None) -> None:
        """Let the next sends of producers be refused: nothing is stored, and the answer has that code.

        Args:
            times: how many sends; a producer that tries again needs one for each try.
            code: the answer's; a producer tries again after some of them, SYSTEM_BUSY for instance.
            broker: by which broker; None for whichever they come to.

        Raises:
            ConfigError: one of the arguments cannot be used.
        """
        check_number("code", code, 1, 2**31 - 1)
        self._stand_in_front(broker, times)
        self._faults.refuse(times, code, broker)

    def delay_sends(self, seconds: float | timedelta, times: int = 1, *, broker: int | None = None) -> None:
        """Let the next sends be carried out and answered that much later. See `refuse_sends`."""
        delay = checked_seconds("a delay", seconds)
        self._stand_in_front(broker, times)
        self._faults.delay(times, delay, broker, self._nursery())

    def lose_answers(self, times: int = 1, *, broker: int | None = None) -> None:
        """Let the next sends be stored and not answered: their producers cannot know. See `refuse_sends`."""
        self._stand_in_front(broker, times)
        self._faults.lose_answers(times, broker)

    def heal(self) -> None:
        """Let no more sends go wrong."""
        self._faults.heal()

    def _stand_in_front(self, broker: int | None, times: int) -> None:
        self._nursery()
        check_number("times", times)
        if broker is not None:
            check_slot("broker", broker, len(self._brokers))
        for number, slot in enumerate(self._brokers):
            if slot.is_ready:
                self._faults.attach(slot.server, number)

    # --- connections that break ------------------------------------------------------------------------

    async def cut_connections(self, broker: int | None = None) -> int:
        """Break all connections from clients to a broker, which runs on; returns how many there were.

        What clients have asked and not been answered stays without an answer, carried out or not. They connect again
        when they need to. Name servers notice nothing.

        Args:
            broker: to which broker; None for all that run.

        Raises:
            ConfigError: there is no such broker, or it does not run.
        """
        self._nursery()
        if broker is not None:
            check_slot("broker", broker, len(self._brokers))
        slots = self._brokers if broker is None else [self._brokers[broker]]
        running = [slot.running for slot in slots if broker is not None or slot.is_ready]
        servers = [server.server for server in running if server.server is not None]
        connections = [connection for server in servers for connection in server.connections]
        for connection in connections:
            connection.close(ConnectionLostError("the test cut the connection", address=connection.address))
        for connection in connections:
            await connection.aclose()
        return len(connections)
