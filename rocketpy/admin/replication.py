"""Replication: makes a result of what a master or a slave says about how it keeps up with the other. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.admin.results.replication import BrokerReplication, SlaveReplication
from rocketpy.admin.results.times import moment

if TYPE_CHECKING:
    from rocketpy.wire.bodies.replication import HARuntimeInfo

__all__ = ["replication"]


def replication(broker: str, found: HARuntimeInfo) -> BrokerReplication:
    """What a broker has answered."""
    client = found.ha_client_runtime_info
    slaves = (
        SlaveReplication(
            address=each.addr or "",
            acknowledged=each.slave_ack_offset,
            behind=each.diff,
            is_in_sync=each.in_sync,
            byte_rate=each.transferred_byte_in_second,
            sent_from=each.transfer_from_where,
        )
        for each in found.ha_connection_info
    )
    if found.master:
        return BrokerReplication(
            broker=broker,
            is_master=True,
            commit_log_end=found.master_commit_log_max_offset,
            slaves=tuple(sorted(slaves, key=lambda each: each.address)),
        )
    return BrokerReplication(
        broker=broker,
        is_master=False,
        commit_log_end=client.max_offset,
        master=client.master_addr or None,
        master_flushed=client.master_flush_offset,
        byte_rate=client.transferred_byte_in_second,
        last_read_at=moment(client.last_read_timestamp),
        last_written_at=moment(client.last_write_timestamp),
    )
