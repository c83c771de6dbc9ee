"""Requests of administrators to delete old log files, queue files without records, and queues of deleted topics.

Plays a part of AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import LMQ_PREFIX
from rocketpy_broker_sim.broker.processors.pages import sorted_steps
from rocketpy_broker_sim.serving.slices import MUST_END

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import CleaningView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["clean_expired_queues", "clean_unused_topics", "delete_expired_log_files"]

log = get_logger(__name__)

MOST_LOGGED = 20
"""Names of topics in one line of the log."""


def delete_expired_log_files(broker: CleaningView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Delete files of the log that are old enough now, not at the configured hour. Answered before this is done."""
    log.info("%s has old files of the commit log deleted", quote(connection.address))
    broker.cleaning.delete_on_command()
    return request.answer()


def clean_expired_queues(broker: CleaningView, connection: Connection, request: RemotingCommand) -> None:
    """Delete the files of queues before their first record. Answered when this is done.

    A queue without any record keeps its last file, unlike with Apache's broker. Otherwise its offsets would begin at
    zero again, and groups that have read it would skip the next messages.
    """
    log.info("%s has expired consume queues cleaned", quote(connection.address))
    broker.cleaning.clean_queues_on_command(lambda: connection.send_answer(request, request.answer()))


def clean_unused_topics(broker: CleaningView, connection: Connection, request: RemotingCommand) -> Steps:
    """Delete the queues of topics that the broker does not know, or no longer knows, except those of system topics.

    The offsets of groups in them are deleted too: a topic of that name that is created later begins at zero. A sliced
    processor, which runs to its end.

    Raises:
        BrokerError: the disk refused.
    """
    unused = []
    for name in (yield from sorted_steps(broker.store.reads.topics())):
        if _is_unused(broker, name):
            unused.append(name)
        yield
    names = ", ".join(unused[:MOST_LOGGED]) or "there is none"
    more = f" and {len(unused) - MOST_LOGGED} more" if len(unused) > MOST_LOGGED else ""
    log.info("%s has unused topics cleaned: %s%s", quote(connection.address), names, more)
    yield MUST_END
    for name in unused:
        if _is_unused(broker, name):  # still: it may have been created meanwhile
            yield from _delete(broker, name)
        yield
    return broker.persistence.answer_after_save(connection, request, request.answer())


def _delete(broker: CleaningView, name: str) -> Steps:
    # First the offsets, then those committed meanwhile: a topic of that name may be created at any step.
    yield from broker.offsets.remove_topic_steps(name)
    if not _is_unused(broker, name):
        return None
    broker.turn.finish()  # what is pending must succeed or fail for those who put it, not here
    broker.offsets.remove_topic(name)
    try:
        yield from broker.store.delete_topics_steps([name])
    except StoreError as exc:
        log.error("unused topics could not be cleaned: %s", exc)
        remark = "unused topics could not be cleaned: the disk of the broker is broken"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark) from exc
    return None


def _is_unused(broker: CleaningView, name: str) -> bool:
    """Whether a topic with queues has no settings, though it should."""
    return name not in broker.topics and not broker.topics.is_system(name) and not name.startswith(LMQ_PREFIX)
