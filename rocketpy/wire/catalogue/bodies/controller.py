"""What a controller answers about the brokers that it looks after."""

from __future__ import annotations

from rocketpy.wire.bodies.route import BrokerMemberGroup
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["BrokerReplicasInfo", "ElectMasterResponseBody", "ReplicaIdentity", "ReplicasInfo"]


@body
class ElectMasterResponseBody(Body):
    """The brokers of a name, and which of them are in step."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[int] | None = None


@body
class ReplicaIdentity(Body):
    """One broker."""

    broker_name: str | None = None
    broker_id: int | None = None
    broker_address: str | None = None
    alive: bool | None = None


@body
class ReplicasInfo(Body):
    """The master of a name, and which brokers keep up with it."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 = 0
    sync_state_set_epoch: Int32 = 0
    in_sync_replicas: list[ReplicaIdentity] | None = None
    not_in_sync_replicas: list[ReplicaIdentity] | None = None


@body
class BrokerReplicasInfo(Body):
    """That, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = member(factory=dict)
