"""Headers between the brokers that share a name: where the master is, and how far its log reaches."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, header, int32, int64, text

__all__ = [
    "AddBrokerRequestHeader",
    "ExchangeHAInfoRequestHeader",
    "ExchangeHAInfoResponseHeader",
    "NotifyBrokerRoleChangedRequestHeader",
    "RemoveBrokerRequestHeader",
    "ResetMasterFlushOffsetHeader",
]


@header(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeHAInfoRequestHeader(Header):
    """A slave asks its master, or a master tells its slaves, where the log is and how far it was flushed."""

    master_ha_address: str | None = text(default=None)
    master_flush_offset: int | None = int64(default=None)
    master_address: str | None = text(default=None)


@header(RequestCode.EXCHANGE_BROKER_HA_INFO, answer=True)
class ExchangeHAInfoResponseHeader(Header):
    """Where the log is and how far it was flushed."""

    master_ha_address: str | None = text(default=None)
    master_flush_offset: int | None = int64(default=None)
    master_address: str | None = text(default=None)


@header(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffsetHeader(Header):
    """Tell a slave how far its master had flushed."""

    master_flush_offset: int = int64()


@header(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
class NotifyBrokerRoleChangedRequestHeader(Header):
    """A controller says who the master is; the brokers in step are the body."""

    master_address: str | None = text(default=None)
    master_epoch: int | None = int32(default=None)
    sync_state_set_epoch: int | None = int32(default=None)
    master_broker_id: int | None = int64(default=None)


@header(RequestCode.ADD_BROKER)
class AddBrokerRequestHeader(Header):
    """Have a container start a broker; its settings are the body, or a file of the container's."""

    config_path: str | None = text(default=None)


@header(RequestCode.REMOVE_BROKER)
class RemoveBrokerRequestHeader(Header):
    """Have a container stop a broker."""

    broker_name: str = text()
    broker_cluster_name: str = text()
    broker_id: int = int64()
