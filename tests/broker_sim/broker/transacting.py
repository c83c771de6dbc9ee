"""A raw producer of transactions: half messages, their ends, and the checks that the broker sends."""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketpy.message import MessageExt
from rocketpy.wire.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import SendMessageResponseHeader
from rocketpy.wire.headers.transaction import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.broker import Broker
from tests.broker_sim.broker.kit import Client

HALF, OP, DISCARDED = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Half(NamedTuple):
    """The place of a half message in the broker."""

    offset: int
    position: int
    transaction_id: str
    queue_id: int = 0


def stored(broker: Broker, topic: str, queue: int = 0) -> list[MessageExt]:
    """The messages of a queue."""
    return decode_messages(broker.store.reads.get(topic, queue, 0, 32).records)


def half_properties(unique_key: str = "U1", group: str = "p", **more: str) -> str:
    return encode_properties({"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": unique_key, **more})


async def send_half(client: Client, unique_key: str = "U1", body: bytes = b"x", **more: Any) -> Half:
    """Send a half message of the group p to T."""
    fields = {name: more.pop(name) for name in ("queue_id", "topic", "sys_flag", "reconsume_times") if name in more}
    answer = await client.send(fields.pop("topic", "T"), body, half_properties(unique_key, **more), **fields)
    assert answer.code == 0, answer.remark
    return half_of(answer)


def half_of(answer: RemotingCommand) -> Half:
    header = SendMessageResponseHeader.from_ext(answer.ext_fields)
    position = decode_offset_message_id(header.msg_id).offset
    return Half(header.queue_offset, position, header.transaction_id or "", header.queue_id)


def end_fields(half: Half, how: int = COMMIT, **more: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "producer_group": "p",
        "tran_state_table_offset": half.offset,
        "commit_log_offset": half.position,
        "commit_or_rollback": how,
        "msg_id": half.transaction_id,
        "transaction_id": half.transaction_id,
        **more,
    }
    return EndTransactionRequestHeader(**values).to_ext()


async def end(client: Client, half: Half, how: int = COMMIT, **more: Any) -> RemotingCommand:
    """End a transaction, and wait for the answer, unlike Java's clients."""
    return await client.ask(RequestCode.END_TRANSACTION, end_fields(half, how, **more))


def end_oneway(client: Client, half: Half, how: int = COMMIT, **more: Any) -> None:
    """End a transaction as clients do."""
    client.connection.send_oneway(RemotingCommand.oneway(RequestCode.END_TRANSACTION, end_fields(half, how, **more)))


def questions(client: Client) -> list[tuple[Half, MessageExt]]:
    """The checks that the client has got."""
    found = []
    for request in client.received:
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            header = CheckTransactionStateRequestHeader.from_ext(request.ext_fields)
            half = Half(header.tran_state_table_offset, header.commit_log_offset, header.transaction_id or "")
            (message,) = decode_messages(request.body)
            found.append((half, message))
    return found


async def join(client: Client, *groups: str) -> None:
    """Send a heartbeat as a producer; must be repeated before the broker drops the client."""
    data = HeartbeatData(
        client_id=client.connection.address, producer_data_set=[ProducerData(group_name=group) for group in groups]
    )
    assert (await client.ask(RequestCode.HEART_BEAT, body=data.encode())).code == 0
