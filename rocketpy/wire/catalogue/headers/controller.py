"""Headers of the controller (5.x), which elects masters: what brokers and administrators ask it.

What controllers tell each other (1014 to 1018) are entries of their own log, not requests; they are not here.
"""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text

__all__ = [
    "AlterSyncStateSetRequestHeader",
    "AlterSyncStateSetResponseHeader",
    "ApplyBrokerIdRequestHeader",
    "ApplyBrokerIdResponseHeader",
    "CleanControllerBrokerDataRequestHeader",
    "ElectMasterRequestHeader",
    "ElectMasterResponseHeader",
    "GetMetaDataResponseHeader",
    "GetNextBrokerIdRequestHeader",
    "GetNextBrokerIdResponseHeader",
    "GetReplicaInfoRequestHeader",
    "GetReplicaInfoResponseHeader",
    "RegisterBrokerToControllerRequestHeader",
    "RegisterBrokerToControllerResponseHeader",
]


@header(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
class AlterSyncStateSetRequestHeader(Header):
    """A master says which slaves keep up with it; they are the body."""

    broker_name: str | None = text(default=None)
    master_broker_id: int | None = int64(default=None)
    master_epoch: int | None = int32(default=None)
    invoke_time: int = int64(default=0)


@header(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, answer=True)
class AlterSyncStateSetResponseHeader(Header):
    """The number of the new set."""

    new_sync_state_set_epoch: int = int32(default=0)


@header(RequestCode.CONTROLLER_ELECT_MASTER)
class ElectMasterRequestHeader(Header):
    """Elect a master for a broker name, a given one if `designate_elect` says so."""

    cluster_name: str = text(missing="")
    broker_name: str = text(missing="")
    broker_id: int = int64(default=-1)
    designate_elect: bool = boolean(default=False)
    invoke_time: int | None = int64(default=None)


@header(RequestCode.CONTROLLER_ELECT_MASTER, answer=True)
class ElectMasterResponseHeader(Header):
    """Who was elected; the members of the name are the body."""

    master_broker_id: int | None = int64(default=None)
    master_address: str | None = text(default=None)
    master_epoch: int | None = int32(default=None)
    sync_state_set_epoch: int | None = int32(default=None)


@header(RequestCode.CONTROLLER_REGISTER_BROKER)
class RegisterBrokerToControllerRequestHeader(Header):
    """A broker says that it has started."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)
    broker_id: int | None = int64(default=None)
    broker_address: str | None = text(default=None)
    invoke_time: int = int64(default=0)


@header(RequestCode.CONTROLLER_REGISTER_BROKER, answer=True)
class RegisterBrokerToControllerResponseHeader(Header):
    """Who is the master; the brokers in step are the body."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)
    master_broker_id: int | None = int64(default=None)
    master_address: str | None = text(default=None)
    master_epoch: int | None = int32(default=None)
    sync_state_set_epoch: int | None = int32(default=None)


@header(RequestCode.CONTROLLER_GET_REPLICA_INFO)
class GetReplicaInfoRequestHeader(Header):
    """Ask for the master of a broker name."""

    broker_name: str | None = text(default=None)


@header(RequestCode.CONTROLLER_GET_REPLICA_INFO, answer=True)
class GetReplicaInfoResponseHeader(Header):
    """Who is the master; the brokers in step are the body."""

    master_broker_id: int | None = int64(default=None)
    master_address: str | None = text(default=None)
    master_epoch: int | None = int32(default=None)


@header(RequestCode.CONTROLLER_GET_METADATA_INFO, answer=True)
class GetMetaDataResponseHeader(Header):
    """Which controller leads the others."""

    group: str | None = text(default=None)
    controller_leader_id: str | None = text(default=None)
    controller_leader_address: str | None = text(default=None)
    is_leader: bool = boolean(default=False)
    peers: str | None = text(default=None)


@header(RequestCode.CLEAN_BROKER_DATA)
class CleanControllerBrokerDataRequestHeader(Header):
    """Have the controller forget brokers."""

    cluster_name: str | None = text(default=None)
    broker_name: str = text()
    broker_controller_ids_to_clean: str | None = text(default=None)
    """Ids joined by semicolons; none for all."""
    is_clean_living_broker: bool = boolean(default=False)
    invoke_time: int = int64(default=0)


@header(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
class GetNextBrokerIdRequestHeader(Header):
    """A broker without an id asks which is free."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)


@header(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, answer=True)
class GetNextBrokerIdResponseHeader(Header):
    """The id that is free."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)
    next_broker_id: int | None = int64(default=None)


@header(RequestCode.CONTROLLER_APPLY_BROKER_ID)
class ApplyBrokerIdRequestHeader(Header):
    """A broker takes an id; the check code proves later that it is still the same one."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)
    applied_broker_id: int | None = int64(default=None)
    register_check_code: str | None = text(default=None)


@header(RequestCode.CONTROLLER_APPLY_BROKER_ID, answer=True)
class ApplyBrokerIdResponseHeader(Header):
    """The id is taken."""

    cluster_name: str | None = text(default=None)
    broker_name: str | None = text(default=None)
