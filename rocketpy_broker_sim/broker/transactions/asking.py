"""Asking producers how a transaction has ended: CHECK_TRANSACTION_STATE, sent to the live clients of a group in turn.

The request is one-way: the client ends the transaction, or the next check asks another client. Plays the part of
sendCheckMessage in AbstractTransactionalMessageCheckListener, and of Broker2Client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import LocalProtocolError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import PropertyName
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.transaction import CheckTransactionStateRequestHeader
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC
from rocketpy.wire.record import encode_record
from rocketpy_broker_sim.broker.delays.delay import target
from rocketpy_broker_sim.broker.transactions.half import transaction_key

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.transactions.checking import Asked
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger

__all__ = ["Asking"]

log = get_logger(__name__)


class Asking:
    """Asks the producers of one broker.

    Args:
        broker_name: the name of the broker.
        producers: the connected producers.
        ledger: counts the checks.
    """

    def __init__(self, broker_name: str, producers: ProducerTable, ledger: Ledger) -> None:
        self._broker_name = broker_name
        self._producers = producers
        self._ledger = ledger
        self._seldom = Seldom(log, clock=trio.current_time)

    def ask(self, asked: Asked) -> None:
        """Ask one client of the group, skipping those that do not read what they are sent."""
        group, _ = transaction_key(asked.record.properties)
        client = self._producers.next_live(group)
        if client is None:
            self._ledger.nobody_to_ask += 1
            self._seldom.warning(
                group, "no producer of the group %.256r is connected that could be asked about its transactions", group
            )
            return
        try:
            cast("Connection", client.channel).send_oneway(check_command(asked, self._broker_name))
        except LocalProtocolError as exc:
            log.error("the half message at %d cannot be sent to a producer: %s", asked.copy.queue_offset, exc)
        except RocketMQError as exc:
            self._ledger.nobody_to_ask += 1
            log.info("%s cannot be asked about a transaction: %s", client, exc)
        else:
            self._ledger.asked += 1


def check_command(asked: Asked, broker_name: str) -> RemotingCommand:
    """The request about a copy: its place, and the message with its real topic, in the layout of a record.

    Raises:
        LocalProtocolError: it does not fit the layout.
    """
    record, copy = asked
    head, message = record.head, record.message
    topic, queue_id = target(record.properties) or ("", 0)
    unique_key = record.properties.get(PropertyName.UNIQUE_KEY)
    header = CheckTransactionStateRequestHeader(
        topic=TRANSACTION_HALF_TOPIC,
        tran_state_table_offset=copy.queue_offset,
        commit_log_offset=copy.physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=copy.offset_message_id,
        bname=broker_name,
    )
    properties = message.properties
    body = encode_record(
        topic=topic.encode(),
        body=message.body,
        properties=properties.encode() if isinstance(properties, str) else properties,
        queue_id=queue_id,
        flag=message.flag,
        queue_offset=copy.queue_offset,
        physical_offset=copy.physical_offset,
        sys_flag=head.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=copy.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
    )
    return RemotingCommand.oneway(RequestCode.CHECK_TRANSACTION_STATE, header.to_ext(), body)
