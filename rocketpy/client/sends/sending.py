"""One send, taken apart: choose the queue, make the frame, judge the answer, decide on another attempt.

Nothing here waits, and all of it may be used from any thread: what is shared is replaced as a whole or has a lock.
All drivers of sends share it, over any kind of connection. Plays the part of DefaultMQProducerImpl.sendDefaultImpl and
MQClientAPIImpl.processSendResponse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import trio

from rocketpy.client.api.send import send_result
from rocketpy.client.attempt import AnyConnection, Attempt, Choice, RequestConnection
from rocketpy.client.broker_versions import BrokerVersions
from rocketpy.client.fault import MQFaultStrategy
from rocketpy.client.meter import GATHERED, SendMeter, count_of
from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.client.retries import Failure, NotStoredOkError, SendKind, Then, decide, failure_of
from rocketpy.client.routes.publish_info import MAX_QUEUES
from rocketpy.client.send_hooks import SendHooks
from rocketpy.client.sends.key_order import KeyOrder
from rocketpy.client.sends.selection import RoundRobin, select_queue, sharding_queue
from rocketpy.client.sends.send_frames import MAX_TEMPLATES, SendFrames
from rocketpy.client.sends.waiting import TrioThread, Waits
from rocketpy.client.sends.warm import Warm, Way, quick_result
from rocketpy.errors import (
    BrokerUnreachableError,
    RocketMQError,
    SendAttempt,
)
from rocketpy.message import MessageQueue, PropertyName
from rocketpy.remoting.hooks import hook_after
from rocketpy.results import SendResult, SendStatus
from rocketpy.seams import wall_ms
from rocketpy.wire.fast_answer import scan_send_answer
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import decode_command, encode_command

if TYPE_CHECKING:
    from rocketpy.client.attempt import Tracer, WritingConnection
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.config import ProducerConfig
    from rocketpy.wire.fast_answer import SendAnswer

__all__ = ["Attempt", "Choice", "RequestConnection", "SendCore"]

_SEND_OK, _PLAIN = SendStatus.SEND_OK, SendKind.PLAIN
"""Looked up once: a member of an enumeration takes longer to find than most else that a send does."""


_SHARDING_KEY: Final = PropertyName.SHARDING_KEY


def _time_before_it_opens() -> float:
    """The time of the trio loop that runs here, or zero: statistics may be asked for on any thread."""
    try:
        return trio.current_time()
    except RuntimeError:
        return 0.0


class SendCore:
    """What the attempts of a producer share: templates, the round robin, faults of brokers, whose turn it is.

    Attributes:
        clock: trio's, which other threads may read as well once `open` has taken it; before, they read zero.
        order: whose turn it is to send for a sharding key.
        versions: what the versions of brokers mean for sends.
        meter: counts what becomes of sends.
        is_open: whether sends that wait for their turn may still begin.
        home: the thread of that loop; once it is open.
        waits: the deadlines of those that wait; once it is open, in the trio thread.
        hooks: the user's, around each attempt; None where there are none.
        tracer: told of each acknowledged attempt; None where sends are not traced.
    """

    def __init__(self, client: MQClientInstance, config: ProducerConfig) -> None:
        self.client = client
        self.config = config
        self.clock: Callable[[], float] = _time_before_it_opens
        self.fault = MQFaultStrategy(
            self._now,
            enabled=config.send_latency_enable,
            table=config.latency_table,
            probe_timeout=config.send_timeout,
        )
        self.order = KeyOrder()
        self.versions = BrokerVersions(client, config.compress_type)
        self.meter = SendMeter(self._now)
        self.is_open = False
        self.hooks = SendHooks.of(config)
        self.tracer: Tracer | None = None
        self._is_watched = self.hooks is not None
        self._round_robin = RoundRobin()
        self.frames = SendFrames(config, client.config.serialize_type)
        self._targets: tuple[int, dict[MessageQueue, tuple[str, str]]] = 0, {}
        self._warm: dict[str, Warm] = {}

    def open(self) -> None:
        """Take the clock of the trio loop that runs here; other threads may use all this from now on."""
        self.clock = trio.lowlevel.current_clock().current_time
        self.meter.open()
        self.home = TrioThread()
        self.waits = Waits(self.order, self.client.pool.timers)
        self.versions.open()
        self.is_open = True

    def close(self) -> None:
        """Sends that wait for their turn do not begin any more."""
        self.is_open = False
        self.versions.close()

    def trace_with(self, tracer: Tracer | None) -> None:
        """Record each acknowledged attempt with a tracer from now on; None ends that."""
        self.tracer = tracer
        self._is_watched = self.hooks is not None or tracer is not None

    def _now(self) -> float:
        return self.clock()

    # --- before the wire -------------------------------------------------------------------------------

    def begin(
        self,
        outgoing: Outgoing,
        choice: Choice | None,
        started: float,
        nowait: Callable[[str], AnyConnection | None],
    ) -> Attempt[AnyConnection] | None:
        """A first attempt that can be sent at once; None when a route, a master or a connection is missing.

        Args:
            outgoing: what to send.
            choice: who chooses the queue, None for us.
            started: now, on trio's clock.
            nowait: gives the connection to an address, where there is one.

        Raises:
            ConfigError: the choice is none of the queues.
        """
        if choice is None and outgoing.is_plain and outgoing.chosen is None:
            warm = self._warm.get(outgoing.message.topic)
            if warm is not None and warm.version == self.client.routes.version:
                return self._begin_warm(warm, outgoing, started, nowait)
        info = self.client.routes.publish_info(outgoing.message.topic)
        if info is None:
            return None
        if choice is None and outgoing.is_plain and not self.fault.enabled and self.hooks is None:
            self._warm_up(outgoing, info)
        queue = self.choose(outgoing, info, choice)
        try:
            broker_name, address = self.target(queue)
        except BrokerUnreachableError:
            return None
        connection = nowait(address)
        if connection is None or (outgoing.timed and not self.versions.can_time(address)):
            outgoing.chosen = queue if outgoing.is_plain or outgoing.is_reply else None
            return None
        attempt = self.make_attempt(outgoing, queue, broker_name, address, connection, started)
        attempt.others = info.several_brokers
        return attempt

    def _begin_warm(
        self,
        warm: Warm,
        outgoing: Outgoing,
        started: float,
        nowait: Callable[[str], AnyConnection | None],
    ) -> Attempt[AnyConnection] | None:
        """The same for nearly every send: a plain message for a topic whose ways are known."""
        way = warm.ways[next(warm.counter) % len(warm.ways)]
        connection = nowait(way.address)
        if connection is None:
            outgoing.chosen = way.queue
            return None
        if connection.hooks:
            attempt = self.make_attempt(outgoing, way.queue, way.broker_name, way.address, connection, started)
            attempt.others = warm.several_brokers
            return attempt
        message, opaque = outgoing.message, connection.next_opaque()
        frame = way.template.frame(
            opaque,
            way.queue.queue_id,
            outgoing.sys_flag,
            wall_ms(),
            message.flag,
            outgoing.properties,
            outgoing.body,
        )
        return Attempt(
            outgoing,
            way.queue,
            way.broker_name,
            way.address,
            connection,
            opaque,
            frame,
            started,
            None,
            warm.several_brokers,
            way.cell,
        )

    def _warm_up(self, outgoing: Outgoing, info: TopicPublishInfo) -> None:
        """Look everything up that the sends to a topic have in common, until a route changes."""
        version = self.client.routes.version
        ways = []
        for queue in info.queues:
            try:
                broker_name, address = self.target(queue)
            except BrokerUnreachableError:
                return
            cell = self.meter.cell(queue.topic, broker_name)
            template = self.frames.template(outgoing, broker_name)
            ways.append(Way(queue=queue, broker_name=broker_name, address=address, template=template, cell=cell))
        if ways and len(self._warm) < MAX_TEMPLATES:
            counter = self._round_robin.counter(outgoing.message.topic)
            self._warm[outgoing.message.topic] = Warm(
                version=version, ways=tuple(ways), counter=counter, several_brokers=info.several_brokers
            )

    def kind(self, outgoing: Outgoing, choice: Choice | None) -> SendKind:
        """What kind of send this is, by what it leaves to us."""
        if choice is not None:
            return SendKind.QUEUE
        if outgoing.is_reply:
            return SendKind.REPLY
        return SendKind.KEYED if _SHARDING_KEY in outgoing.message.wire_properties else SendKind.PLAIN

    def choose(
        self,
        outgoing: Outgoing,
        info: TopicPublishInfo,
        choice: Choice | None,
        failed: Sequence[str] = (),
        *,
        oneway: bool = False,
    ) -> MessageQueue:
        """The queue of the next attempt. `failed` are the brokers of those before, the last one last."""
        if choice is not None:
            return choice(info)
        message = outgoing.message
        sharding_key = message.wire_properties.get(_SHARDING_KEY)
        if sharding_key is not None:
            return sharding_queue(info.queues, sharding_key)
        if outgoing.chosen is not None:
            queue, outgoing.chosen = outgoing.chosen, None
            if not failed and queue in info.queues:
                return queue
        counter = self._round_robin.counter(message.topic)
        if not failed and not self.fault.enabled and info.queues:
            # As `select_queue` would; nearly every send comes here.
            return info.queues[next(counter) % len(info.queues)]
        untried = [queue for queue in info.queues if queue.broker_name not in failed] if failed else ()
        last = failed[-1] if failed else None
        return select_queue(untried or info.queues, counter, avoid=last, fault=self.fault, oneway=oneway)

    def others(self, outgoing: Outgoing, failed: Collection[str]) -> bool:
        """Whether there is a broker that could take the message and is none of those."""
        routes = self.client.routes
        info = routes.publish_info(outgoing.message.topic)
        if info is None:
            return False
        names = {routes.broker_name(queue) for queue in info.queues}
        return any(name not in failed and routes.broker_address(name) is not None for name in names)

    def target(self, queue: MessageQueue) -> tuple[str, str]:
        """Name and address of the master that holds a queue.

        Raises:
            BrokerUnreachableError: it has none now.
        """
        routes = self.client.routes
        version, targets = self._targets
        if version != (now := routes.version):
            targets = {}
            self._targets = now, targets
        known = targets.get(queue)
        if known is not None:
            return known
        broker_name = routes.broker_name(queue)
        address = routes.broker_address(broker_name)
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {broker_name} of {queue.topic} has no master now: wait for it, or send to another queue",
                topic=queue.topic,
            )
        if len(targets) < MAX_QUEUES:
            targets[queue] = broker_name, address
        return broker_name, address

    def make_attempt(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker_name: str,
        address: str,
        connection: AnyConnection,
        started: float,
    ) -> Attempt[AnyConnection]:
        """An attempt over a connection that is there.

        Raises:
            Exception: whatever a hook raises to forbid it.
        """
        context = None if self.hooks is None else self.hooks.begin(outgoing, queue, address)
        attempt = self._attempt(outgoing, queue, broker_name, address, connection, started)
        attempt.context = context
        return attempt

    def _attempt(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker_name: str,
        address: str,
        connection: AnyConnection,
        started: float,
    ) -> Attempt[AnyConnection]:
        opaque = connection.next_opaque()
        if connection.hooks:
            command = self.frames.hooked(outgoing, queue, broker_name, connection, opaque)
            frame = encode_command(command)
            return Attempt(outgoing, queue, broker_name, address, connection, opaque, frame, started, command)
        frame = self.frames.filled(outgoing, queue, broker_name, opaque)
        return Attempt(outgoing, queue, broker_name, address, connection, opaque, frame, started)

    def write_oneway(
        self, outgoing: Outgoing, queue: MessageQueue, broker_name: str, connection: WritingConnection
    ) -> None:
        """Write a request that wants no answer.

        Raises:
            RocketMQError: it could not be written.
            Exception: whatever a hook raises to forbid it.
        """
        hooks = self.hooks
        if hooks is None:
            connection.send_frame(self.frames.oneway(outgoing, queue, broker_name, connection))
        else:
            context = hooks.begin(outgoing, queue, connection.address, oneway=True)
            try:
                connection.send_frame(self.frames.oneway(outgoing, queue, broker_name, connection))
            except RocketMQError as error:
                hooks.end(context, error)
                raise
            hooks.end(context, None)
        self.fault.update_oneway(broker_name)
        self.meter.note_oneway(outgoing, broker_name)

    def forget_gone_brokers(self) -> None:
        """Hold nothing against brokers that no route names any more, and keep no templates for them."""
        names = set(self.client.routes.brokers())
        self.fault.retain(names)
        self.frames.retain(names)
        self._warm = {}

    # --- after the wire --------------------------------------------------------------------------------

    def finish(self, attempt: Attempt[AnyConnection], frame: Frame | SendAnswer) -> SendResult:
        """What the answer says.

        Raises:
            BrokerError: not stored.
            NotStoredOkError: stored, but another broker shall be tried.
            RemoteProtocolError: the answer is not usable.
        """
        if isinstance(frame, Frame):
            found = scan_send_answer(frame) if attempt.command is None else None
            result = self._full_result(attempt, frame) if found is None else quick_result(attempt, found)
        else:
            result = quick_result(attempt, frame)
        now = self.clock()
        elapsed = now - attempt.started
        if self.fault.enabled:
            self.fault.update(attempt.broker_name, elapsed)
        if self._is_watched:
            if self.tracer is not None:
                self.tracer.sent(attempt.outgoing, attempt.address, elapsed, result)
            if attempt.context is not None:
                self.hooks_end(attempt, result)
        if result.status is not _SEND_OK and self.config.retry_another_broker_when_not_store_ok:
            raise NotStoredOkError(result)
        outgoing, cell = attempt.outgoing, attempt.cell
        if cell is None:
            cell = self.meter.cell(outgoing.message.topic, attempt.broker_name)
        sizes = cell.sizes
        if now >= cell.ends or len(sizes) >= GATHERED:
            cell.drain(now)
        cell.seconds.append(elapsed)
        sizes.append(len(outgoing.body))
        if outgoing.is_batch:
            cell.further.append(count_of(outgoing) - 1)
        return result

    def hooks_end(self, attempt: Attempt[AnyConnection], outcome: SendResult | BaseException) -> None:
        """Tell hooks once how an attempt has ended."""
        context, attempt.context = attempt.context, None
        if context is not None and self.hooks is not None:
            self.hooks.end(context, outcome)

    def was_forbidden(self, error: BaseException) -> bool:
        """Whether a hook has raised this to forbid an attempt: nothing follows it."""
        return self.hooks is not None and error in self.hooks.refusals

    @staticmethod
    def _full_result(attempt: Attempt[AnyConnection], frame: Frame) -> SendResult:
        answer = decode_command(frame)
        if attempt.command is not None:
            hook_after(attempt.connection.hooks, attempt.address, attempt.command, answer)
        queue = attempt.queue
        return send_result(answer, attempt.address, queue.topic, queue.broker_name, attempt.outgoing.message_id)

    def failed(
        self, queue: MessageQueue, broker_name: str, address: str | None, error: RocketMQError, started: float
    ) -> SendAttempt:
        """Take note of an attempt that failed."""
        elapsed = self.clock() - started
        self.fault.update_failed(broker_name, elapsed, error, self.config.retry_response_codes)
        return error.note_attempt(broker_name, address, elapsed, queue)

    # --- the rule --------------------------------------------------------------------------------------

    def then(
        self, outgoing: Outgoing, kind: SendKind, attempts: Sequence[SendAttempt], error: BaseException
    ) -> Then | None:
        """What follows the last of these attempts, which came to `error`; None when nothing does."""
        codes = self.config.retry_response_codes
        if failure_of(error, codes) is Failure.FINAL:
            return None
        others = self.others(outgoing, {attempt.broker_name for attempt in attempts})
        return decide(kind, error, failures=len(attempts), others=others, codes=codes)

    def until(self, kind: SendKind, started: float, deadline: float, left: int, *, others: bool) -> float:
        """When an attempt ends that has no answer, so that one hung broker leaves time for another one.

        Args:
            kind: of the send.
            started: when the attempt began.
            deadline: of the send.
            left: how many attempts there may be, this one too.
            others: whether there is another broker that could take the message.
        """
        longest = self.config.send_msg_max_timeout_per_request
        if longest is not None:
            return min(deadline, started + longest)
        if left > 1 and others and (kind is _PLAIN or kind is SendKind.REPLY):
            return started + (deadline - started) / 2
        return deadline
