"""One send, taken apart: choose the queue, make the frame, judge the answer, decide on another try.

Nothing here waits. The two drivers in `send_drivers` share it. Plays the part of
DefaultMQProducerImpl.sendDefaultImpl and MQClientAPIImpl.processSendResponse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.client.api.send import send_result
from rocketpy.client.fault import MQFaultStrategy
from rocketpy.client.outgoing import Outgoing
from rocketpy.client.publish_info import MAX_QUEUES
from rocketpy.client.selection import RoundRobin, select_queue, sharding_queue
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectError,
    ProtocolError,
    RequestTimeoutError,
    RocketMQError,
    SendAttempt,
    SendError,
    TransportError,
)
from rocketpy.message import MessageQueue, PropertyName
from rocketpy.remoting.connection import Connection
from rocketpy.results import SendResult, SendStatus
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import ONEWAY_FLAG
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.fast_answer import scan_send_answer
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.serialize import decode_command, encode_command
from rocketpy.wire.templates import SendTemplate

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.publish_info import TopicPublishInfo
    from rocketpy.config import ProducerConfig
    from rocketpy.wire.frame import Frame

__all__ = ["Choice", "NotStoredOkError", "SendCore", "Try"]

Choice = Callable[["TopicPublishInfo"], MessageQueue]
"""Chooses the queue of a send that does not leave it to us."""

_MAX_TEMPLATES = 4096
_SEND_OK = SendStatus.SEND_OK
"""Looked up once: a member of an enumeration takes longer to find than most else that a send does."""


class NotStoredOkError(RocketMQError):
    """The message is stored, but not as safely as asked, and the config says to try another broker then."""

    def __init__(self, result: SendResult) -> None:
        super().__init__(f"stored with {result.status.name}")
        self.result = result


@attrs.define(eq=False)
class Try:
    """One try of one send, under way."""

    outgoing: Outgoing
    queue: MessageQueue
    broker_name: str
    address: str
    connection: Connection
    opaque: int
    frame: bytes
    started: float
    """On trio's clock."""
    command: RemotingCommand | None = None
    """The request as fields, where hooks want to see it."""


class SendCore:
    """What the tries of a producer share: templates, the round robin, what is held against brokers."""

    def __init__(self, client: MQClientInstance, config: ProducerConfig) -> None:
        self.client = client
        self.config = config
        self.fault = MQFaultStrategy(trio.current_time, enabled=config.send_latency_enable, table=config.latency_table)
        self._round_robin = RoundRobin()
        self._templates: dict[tuple[str, str, int], SendTemplate] = {}
        self._targets: dict[MessageQueue, tuple[str, str]] = {}
        self._targets_of = 0

    # --- before the wire -------------------------------------------------------------------------------

    def begin(self, outgoing: Outgoing, choice: Choice | None, started: float) -> Try | None:
        """A first try that can be sent at once; None when a route or a connection is missing.

        Raises:
            ConfigError: the choice is none of the queues.
            BrokerUnreachableError: the broker of the chosen queue has no master now.
        """
        client = self.client
        info = client.routes.publish_info(outgoing.message.topic)
        if info is None:
            return None
        queue = self.choose(outgoing, info, choice, None)
        broker_name, address = self.target(queue)
        connection = client.pool.nowait(address)
        if connection is None:
            return None
        return self.make_try(outgoing, queue, broker_name, address, connection, started)

    def choose(
        self, outgoing: Outgoing, info: TopicPublishInfo, choice: Choice | None, avoid: str | None
    ) -> MessageQueue:
        """The queue of the next try."""
        if choice is not None:
            return choice(info)
        message = outgoing.message
        sharding_key = message.properties.get(PropertyName.SHARDING_KEY)
        if sharding_key is not None:
            return sharding_queue(info.queues, sharding_key)
        counter = self._round_robin.counter(message.topic)
        if avoid is None and not self.fault.enabled and info.queues:
            # As `select_queue` would; nearly every send comes here.
            return info.queues[next(counter) % len(info.queues)]
        return select_queue(info.queues, counter, avoid=avoid, fault=self.fault)

    def target(self, queue: MessageQueue) -> tuple[str, str]:
        """Name and address of the master that holds a queue.

        Raises:
            BrokerUnreachableError: it has none now.
        """
        routes = self.client.routes
        if self._targets_of != routes.version:
            self._targets, self._targets_of = {}, routes.version
        known = self._targets.get(queue)
        if known is not None:
            return known
        broker_name = routes.broker_name(queue)
        address = routes.broker_address(broker_name)
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {broker_name} of {queue.topic} has no master now: wait for it, or send to another queue",
                topic=queue.topic,
            )
        if len(self._targets) < MAX_QUEUES:
            self._targets[queue] = broker_name, address
        return broker_name, address

    def make_try(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker_name: str,
        address: str,
        connection: Connection,
        started: float,
    ) -> Try:
        """A try over a connection that is there."""
        opaque = connection.next_opaque()
        if connection.hooks:
            command = self._hooked(outgoing, queue, broker_name, connection, opaque)
            frame = encode_command(command)
            return Try(outgoing, queue, broker_name, address, connection, opaque, frame, started, command)
        frame = self._filled(outgoing, queue, broker_name, opaque)
        return Try(outgoing, queue, broker_name, address, connection, opaque, frame, started)

    def oneway_frame(self, outgoing: Outgoing, queue: MessageQueue, broker_name: str, connection: Connection) -> bytes:
        """A request that wants no answer."""
        opaque = connection.next_opaque()
        if connection.hooks:
            return encode_command(self._hooked(outgoing, queue, broker_name, connection, opaque, ONEWAY_FLAG))
        return self._filled(outgoing, queue, broker_name, opaque, oneway=True)

    def _hooked(
        self,
        outgoing: Outgoing,
        queue: MessageQueue,
        broker_name: str,
        connection: Connection,
        opaque: int,
        flag: int = 0,
    ) -> RemotingCommand:
        """The request as fields, seen and perhaps signed by the hooks."""
        header = self._header(outgoing, broker_name)
        header.queue_id, header.sys_flag, header.born_timestamp = queue.queue_id, outgoing.sys_flag, wall_ms()
        header.flag, header.properties = outgoing.message.flag, outgoing.properties
        command = RemotingCommand(outgoing.code, header.to_short_ext(), outgoing.body, opaque, flag)
        command.serialize_type = connection.serialize_type
        for hook in connection.hooks:
            hook.before_request(connection.address, command)
        return command

    def _filled(
        self, outgoing: Outgoing, queue: MessageQueue, broker_name: str, opaque: int, *, oneway: bool = False
    ) -> bytes:
        """The request from the template of its producer, topic and broker."""
        message = outgoing.message
        template = self._templates.get((message.topic, broker_name, outgoing.code))
        if template is None or outgoing.has_counts:
            template = self._new_template(outgoing, broker_name)
        return template.frame(
            opaque,
            queue.queue_id,
            outgoing.sys_flag,
            wall_ms(),
            message.flag,
            outgoing.properties,
            outgoing.body,
            oneway=oneway,
        )

    def _new_template(self, outgoing: Outgoing, broker_name: str) -> SendTemplate:
        made = SendTemplate(
            self._header(outgoing, broker_name), code=outgoing.code, serialize_type=self.client.config.serialize_type
        )
        if not outgoing.has_counts and len(self._templates) < _MAX_TEMPLATES:
            self._templates[outgoing.message.topic, broker_name, outgoing.code] = made
        return made

    def _header(self, outgoing: Outgoing, broker_name: str) -> SendMessageRequestHeader:
        return SendMessageRequestHeader(
            producer_group=self.config.group,
            topic=outgoing.topic,
            default_topic=self.config.create_topic_key,
            default_topic_queue_nums=self.config.default_topic_queue_nums,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            reconsume_times=outgoing.reconsume_times,
            unit_mode=False,
            batch=outgoing.is_batch,
            max_reconsume_times=outgoing.max_reconsume_times,
            bname=broker_name,
        )

    def forget_gone_brokers(self) -> None:
        """Hold nothing against brokers that no route names any more, and keep no templates for them."""
        names = set(self.client.routes.brokers())
        self.fault.retain(names)
        self._templates = {key: made for key, made in self._templates.items() if key[1] in names}

    # --- after the wire --------------------------------------------------------------------------------

    def finish(self, attempt: Try, frame: Frame) -> SendResult:
        """What the answer says.

        Raises:
            BrokerError: not stored.
            NotStoredOkError: stored, but another broker shall be tried.
            RemoteProtocolError: the answer is not usable.
        """
        result = self._quick_result(attempt, frame) or self._full_result(attempt, frame)
        if self.fault.enabled:
            self.fault.update(attempt.broker_name, trio.current_time() - attempt.started)
        if result.status is not _SEND_OK and self.config.retry_another_broker_when_not_store_ok:
            raise NotStoredOkError(result)
        return result

    @staticmethod
    def _quick_result(attempt: Try, frame: Frame) -> SendResult | None:
        """The result of a plain success, which nearly every answer is; None for the full parser."""
        found = scan_send_answer(frame) if attempt.command is None else None
        if found is None:
            return None
        offset_message_id, queue_id, queue_offset, transaction_id, region, trace_on = found
        queue = attempt.queue if queue_id == attempt.queue.queue_id else attempt.queue._replace(queue_id=queue_id)
        values = (
            _SEND_OK,
            attempt.outgoing.message_id,
            offset_message_id,
            queue,
            queue_offset,
            transaction_id,
            region or "DefaultRegion",
            trace_on is not False,
        )
        return tuple.__new__(SendResult, values)  # the class's own takes twice as long

    @staticmethod
    def _full_result(attempt: Try, frame: Frame) -> SendResult:
        answer = decode_command(frame)
        if attempt.command is not None:
            for hook in attempt.connection.hooks:
                hook.after_answer(attempt.address, attempt.command, answer)
        queue = attempt.queue
        return send_result(answer, attempt.address, queue.topic, queue.broker_name, attempt.outgoing.message_id)

    def failed(self, broker_name: str, address: str | None, error: RocketMQError, started: float) -> SendAttempt:
        """Take note of a try that failed."""
        elapsed = trio.current_time() - started
        if not isinstance(error, ProtocolError | NotStoredOkError):
            self.fault.update(broker_name, elapsed, isolation=True, reachable=not isinstance(error, ConnectError))
        return SendAttempt(broker_name, address, error, elapsed)

    def is_worth_another(self, error: BaseException) -> bool:
        """Whether another broker may do better."""
        if isinstance(error, BrokerError):
            return error.code in self.config.retry_response_codes or error.retriable
        return isinstance(error, TransportError | RequestTimeoutError | NotStoredOkError)


def verdict(topic: str, attempts: list[SendAttempt]) -> RocketMQError:
    """The error of a send whose tries all failed: the error itself when there was one try, else all of them."""
    last = attempts[-1].error
    if len(attempts) == 1:
        return last
    error = SendError(
        f"a message for {topic} was not acknowledged in {len(attempts)} tries: {_told(attempts)}", attempts=attempts
    )
    error.__cause__ = last
    return error


def _told(attempts: list[SendAttempt]) -> str:
    """What came of tries, those that came to the same told once."""
    alike: dict[tuple[str, str | None, str], list[SendAttempt]] = {}
    for attempt in attempts:
        alike.setdefault((attempt.broker_name, attempt.address, str(attempt.error)), []).append(attempt)
    return "; ".join(_told_once(tries) for tries in alike.values())


def _told_once(tries: list[SendAttempt]) -> str:
    first = tries[0]
    after = ", ".join(f"{each.elapsed * 1000:.0f}" for each in tries)
    return f"<{first.broker_name} at {first.address} after {after} ms: {first.error}>"
