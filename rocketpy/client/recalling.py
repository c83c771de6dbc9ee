"""Recalling a message before it is due. Plays the part of recallMessage in DefaultMQProducerImpl."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import trio

from rocketpy.client.api import send as send_api
from rocketpy.errors import BrokerUnreachableError, ConfigError, RemoteProtocolError, RequestTimeoutError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.send import RecallMessageRequestHeader
from rocketpy.wire.names import DLQ_PREFIX, check_topic, is_retry_topic
from rocketpy.wire.recall_handle import RecallHandle

if TYPE_CHECKING:
    from rocketpy.client.attempt import Tracer
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.wire.command import RemotingCommand

__all__ = ["recall"]

_UNIQUE_ID: Final = re.compile("[0-9A-Fa-f]{32,}")
"""32 digits from clients of the remoting protocol, and more from others."""


async def recall(
    client: MQClientInstance,
    group: str,
    topic: str,
    handle: str | None,
    *,
    timeout: float,
    tracer: Tracer | None = None,
) -> str:
    """Ask the broker that has a message to recall it. Returns the unique id of the message.

    Args:
        client: the client to use.
        group: the group of the producer.
        topic: the topic of the message.
        handle: the recall handle, from the result of the send; None is refused.
        timeout: seconds for the whole call.
        tracer: told of the answer.

    Raises:
        ConfigError: the handle is not valid, or belongs to another topic; nothing was sent.
        RouteNotFoundError: the broker is not known.
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: no answer; whether the message is recalled is unknown.
    """
    handle, found = _checked(topic, handle)
    broker_name = found.broker_name
    started = trio.current_time()
    await client.routes.ensure(topic, timeout=timeout)
    address = client.routes.broker_address(broker_name)
    if address is None:
        raise BrokerUnreachableError(
            f"the broker {broker_name}, which has the message of {topic}, has no master now: wait for it, and recall "
            "the message again",
            topic=topic,
        )
    left = timeout - (trio.current_time() - started)
    if left <= 0:
        raise RequestTimeoutError(f"no time was left to recall a message of {topic}: nothing was sent", timeout=timeout)
    header = RecallMessageRequestHeader(producer_group=group, topic=topic, recall_handle=handle, bname=broker_name)

    def answered(answer: RemotingCommand) -> None:
        region = answer.ext_fields.get("MSG_REGION")
        if tracer is not None and region:
            tracer.recalled(topic, found.message_id, region, success=answer.code == ResponseCode.SUCCESS)

    return await send_api.recall_message(client.pool, address, header, timeout=left, on_answer=answered)


def _checked(topic: str, handle: object) -> tuple[str, RecallHandle]:
    """The handle, and what it says.

    Raises:
        ConfigError: the handle is not valid, or belongs to another topic.
    """
    check_topic(topic)
    if is_retry_topic(topic) or topic.startswith(DLQ_PREFIX):
        raise ConfigError(f"{topic} is a topic of RocketMQ's own: give the topic to which the message was sent")
    if not isinstance(handle, str) or not handle:
        raise ConfigError(
            f"the recall handle is {handle!r:.100}: give the `recall_handle` of the result of the send; it is None if "
            "the message has neither `delay` nor `deliver_at`, or the broker is older than RocketMQ 5.3"
        )
    try:
        found = RecallHandle.decode(handle)
    except RemoteProtocolError as exc:
        raise ConfigError(f"{exc}: give the `recall_handle` of the result of the send, unchanged") from exc
    if found.topic != topic:
        raise ConfigError(
            f"the recall handle belongs to a message of {found.topic!r:.127}, not of {topic}: give the topic to which "
            "the message was sent"
        )
    if not _UNIQUE_ID.fullmatch(found.message_id):
        # A broker would accept it, recall a message that it does not have, and answer with success.
        raise ConfigError(
            f"the recall handle names the message {found.message_id!r:.100}, which is not a unique id: it is cut off "
            "or damaged; give the `recall_handle` of the result of the send, unchanged"
        )
    return handle, found
