"""Requests about what this broker does not have: slaves, a controller, users with their rights, queues in RocksDB.

They are answered as by an Apache broker of version 5.3.3 that was started without these. Other requests about them are
not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.consume_queue import CheckRocksdbCqWriteResult
from rocketpy.wire.bodies.replication import HARuntimeInfo
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import UnavailableView

__all__ = ["check_rocksdb", "export_rocksdb", "get_epochs", "get_replication", "manage_access", "reset_flushed"]

log = get_logger(__name__)

_ERROR = 3
"""The status of a check that could not be made."""


def get_replication(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The state of replication. This broker is a master without slaves."""
    return request.answer(
        body=HARuntimeInfo(master=True, master_commit_log_max_offset=broker.store.written_position).encode()
    )


def reset_flushed(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Set the flushed position of the master. Only slaves use it, so nothing changes."""
    return request.answer()


def get_epochs(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The epochs of masters, which exist only with a controller."""
    return request.answer(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")


def manage_access(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Manage users and their rights, which this broker does not keep."""
    log.info("%s asks for users or rights (code %d), of which there are none", quote(connection.address), request.code)
    return request.answer(ResponseCode.SYSTEM_ERROR, "this broker keeps no users and no rights")


def check_rocksdb(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Compare queues in RocksDB with those in files. There are only files."""
    found = CheckRocksdbCqWriteResult(
        check_status=_ERROR, check_result="rocksdbCQWriteEnable is false, there are no queues in RocksDB to check"
    )
    return request.answer(body=found.encode())


def export_rocksdb(broker: UnavailableView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Export tables as JSON. They are JSON files already, so there is nothing to do."""
    return request.answer(ResponseCode.SUCCESS, "export done.")
