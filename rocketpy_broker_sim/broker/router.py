"""The table of the broker: which function answers a request code, and in which lane it runs.

A code that stands nowhere here is not supported, and the peer is told so. Plays the part of registerProcessor in
BrokerController.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.lane import Lane
from rocketpy_broker_sim.broker.lanes import Route
from rocketpy_broker_sim.broker.processors import (
    admin_broker,
    admin_cleaning,
    admin_group,
    admin_topic,
    broker_stats,
    client_calls,
    client_manage,
    consume_stats,
    consumer_manage,
    end_transaction,
    locks,
    offset_tables,
    producer_list,
    pull,
    query,
    queue_entries,
    queue_offset,
    recall,
    reply,
    request_modes,
    reset_offset,
    send,
    send_back,
    timers,
    topic_stats,
    unavailable,
    who_consumes,
)

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import Views
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["default_route", "lanes_of", "routes_of"]

View = TypeVar("View")
Processor = Callable[[View, "Connection", "RemotingCommand"], "RemotingCommand | Steps | None"]
"""What answers a kind of request, given what it may reach; a generator function is carried out in slices."""

_COMING = "membership"
"""The order in which a client comes and goes: heartbeats and goodbyes stay as they were sent."""

_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
"""One processor takes them all, so that those which follow each other are one run."""

_ACCESS = (
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_GET_USER,
    RequestCode.AUTH_LIST_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
    RequestCode.AUTH_GET_ACL,
    RequestCode.AUTH_LIST_ACL,
)
"""Users and their rights."""


def _on(view: Callable[[Views], View], processor: Processor[View], lane: str) -> Callable[[Views], Route]:
    """Which processor answers, what it may reach, and the lane where it does."""
    return lambda views: Route(partial(processor, view(views)), lane)


_TABLE: dict[RequestCode, Callable[[Views], Route]] = {
    RequestCode.PULL_MESSAGE: _on(lambda v: v.pull, pull.pull_message, "pull"),
    RequestCode.LITE_PULL_MESSAGE: _on(lambda v: v.pull, pull.pull_message, "lite pull"),
    RequestCode.HEART_BEAT: _on(lambda v: v.client_manage, client_manage.heart_beat, "heartbeat"),
    RequestCode.UNREGISTER_CLIENT: _on(lambda v: v.client_manage, client_manage.unregister_client, "client"),
    RequestCode.CHECK_CLIENT_CONFIG: _on(lambda v: v.client_manage, client_manage.check_client_config, "client"),
    RequestCode.CONSUMER_SEND_MSG_BACK: _on(lambda v: v.send_back, send_back.send_back, "send"),
    RequestCode.END_TRANSACTION: lambda v: Route(end_transaction.EndProcessor(v.transactions), "end transaction"),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _on(lambda v: v.transactions, end_transaction.resume_check, "admin"),
    RequestCode.RECALL_MESSAGE: _on(lambda v: v.recall, recall.recall_message, "send"),
    RequestCode.SEND_REPLY_MESSAGE: _on(lambda v: v.reply, reply.send_reply, "reply"),
    RequestCode.SEND_REPLY_MESSAGE_V2: _on(lambda v: v.reply, reply.send_reply, "reply"),
    RequestCode.QUERY_MESSAGE: _on(lambda v: v.query, query.query_message, "query"),
    RequestCode.VIEW_MESSAGE_BY_ID: _on(lambda v: v.query, query.view_message, "query"),
    # where groups stand
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _on(
        lambda v: v.consumer_manage, consumer_manage.get_consumer_list, "consumer"
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _on(
        lambda v: v.consumer_manage, consumer_manage.get_consumer_connections, "admin"
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: _on(
        lambda v: v.consumer_manage, consumer_manage.query_consumer_offset, "consumer"
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: _on(
        lambda v: v.consumer_manage, consumer_manage.update_consumer_offset, "consumer"
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _on(lambda v: v.reset_offset, reset_offset.reset_offset, "admin"),
    RequestCode.LOCK_BATCH_MQ: _on(lambda v: v.locks, locks.lock_queues, "admin"),
    RequestCode.UNLOCK_BATCH_MQ: _on(lambda v: v.locks, locks.unlock_queues, "admin"),
    RequestCode.GET_CONSUME_STATS: _on(lambda v: v.consume_stats, consume_stats.get_consume_stats, "admin"),
    RequestCode.GET_BROKER_CONSUME_STATS: _on(lambda v: v.consume_stats, consume_stats.get_all_consume_stats, "admin"),
    # clients
    RequestCode.GET_CONSUMER_RUNNING_INFO: _on(lambda v: v.client_calls, client_calls.get_running_info, "admin"),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _on(lambda v: v.client_calls, client_calls.consume_directly, "admin"),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _on(
        lambda v: v.client_calls, client_calls.get_consumer_status, "admin"
    ),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _on(
        lambda v: v.producer_list, producer_list.get_producer_connections, "admin"
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: _on(lambda v: v.producer_list, producer_list.get_all_producers, "admin"),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _on(lambda v: v.who_consumes, who_consumes.groups_of_topic, "admin"),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _on(lambda v: v.who_consumes, who_consumes.topics_of_group, "admin"),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _on(
        lambda v: v.who_consumes, who_consumes.subscription_of_group, "admin"
    ),
    # offsets of all
    RequestCode.GET_ALL_CONSUMER_OFFSET: _on(lambda v: v.offset_tables, offset_tables.get_all_offsets, "admin"),
    RequestCode.GET_ALL_DELAY_OFFSET: _on(lambda v: v.offset_tables, offset_tables.get_all_delay_offsets, "admin"),
    RequestCode.QUERY_CORRECTION_OFFSET: _on(lambda v: v.offset_tables, offset_tables.query_correction, "admin"),
    RequestCode.CLONE_GROUP_OFFSET: _on(lambda v: v.offset_tables, offset_tables.clone_offsets, "admin"),
    # queues
    RequestCode.GET_MAX_OFFSET: _on(lambda v: v.queue_offset, queue_offset.get_max_offset, "admin"),
    RequestCode.GET_MIN_OFFSET: _on(lambda v: v.queue_offset, queue_offset.get_min_offset, "admin"),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _on(lambda v: v.queue_offset, queue_offset.search_offset, "admin"),
    RequestCode.GET_EARLIEST_MSG_STORETIME: _on(
        lambda v: v.queue_offset, queue_offset.get_earliest_store_time, "admin"
    ),
    RequestCode.QUERY_CONSUME_QUEUE: _on(lambda v: v.queue_entries, queue_entries.query_consume_queue, "admin"),
    RequestCode.GET_TOPIC_STATS_INFO: _on(lambda v: v.topic_stats, topic_stats.get_topic_stats, "admin"),
    RequestCode.QUERY_CONSUME_TIME_SPAN: _on(lambda v: v.topic_stats, topic_stats.get_consume_time_span, "admin"),
    # topics and groups
    RequestCode.UPDATE_AND_CREATE_TOPIC: _on(lambda v: v.admin_topic, admin_topic.create_topic, "admin"),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _on(lambda v: v.admin_topic, admin_topic.create_topics, "admin"),
    RequestCode.DELETE_TOPIC_IN_BROKER: _on(lambda v: v.admin_topic, admin_topic.delete_topic, "admin"),
    RequestCode.GET_ALL_TOPIC_CONFIG: _on(lambda v: v.admin_topic, admin_topic.get_all_topics, "admin"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _on(lambda v: v.admin_topic, admin_topic.get_system_topics, "admin"),
    RequestCode.GET_TOPIC_CONFIG: _on(lambda v: v.admin_topic, admin_topic.get_topic, "admin"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _on(lambda v: v.admin_group, admin_group.create_group, "admin"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _on(
        lambda v: v.admin_group, admin_group.create_groups, "admin"
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _on(lambda v: v.admin_group, admin_group.delete_group, "admin"),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _on(lambda v: v.admin_group, admin_group.get_all_groups, "admin"),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _on(lambda v: v.admin_group, admin_group.get_group, "admin"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _on(lambda v: v.admin_group, admin_group.forbid_group, "admin"),
    RequestCode.SET_MESSAGE_REQUEST_MODE: _on(lambda v: v.request_modes, request_modes.set_request_mode, "admin"),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: _on(lambda v: v.request_modes, request_modes.get_request_modes, "admin"),
    # the broker itself
    RequestCode.UPDATE_BROKER_CONFIG: _on(lambda v: v.admin_broker, admin_broker.update_config, "admin"),
    RequestCode.GET_BROKER_CONFIG: _on(lambda v: v.admin_broker, admin_broker.get_config, "admin"),
    RequestCode.DELETE_EXPIRED_COMMITLOG: _on(
        lambda v: v.admin_cleaning, admin_cleaning.delete_expired_log_files, "admin"
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _on(
        lambda v: v.admin_cleaning, admin_cleaning.clean_expired_queues, "admin"
    ),
    RequestCode.CLEAN_UNUSED_TOPIC: _on(lambda v: v.admin_cleaning, admin_cleaning.clean_unused_topics, "admin"),
    RequestCode.GET_BROKER_RUNTIME_INFO: _on(lambda v: v.admin_broker, admin_broker.get_runtime_info, "admin"),
    RequestCode.VIEW_BROKER_STATS_DATA: _on(lambda v: v.broker_stats, broker_stats.view_stats, "admin"),
    RequestCode.GET_TIMER_CHECK_POINT: _on(lambda v: v.timer, timers.get_timer_checkpoint, "admin"),
    RequestCode.GET_TIMER_METRICS: _on(lambda v: v.timer, timers.get_timer_metrics, "admin"),
    # what is not here
    RequestCode.GET_BROKER_HA_STATUS: _on(lambda v: v.unavailable, unavailable.get_replication, "admin"),
    RequestCode.RESET_MASTER_FLUSH_OFFSET: _on(lambda v: v.unavailable, unavailable.reset_flushed, "admin"),
    RequestCode.GET_BROKER_EPOCH_CACHE: _on(lambda v: v.unavailable, unavailable.get_epochs, "admin"),
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _on(lambda v: v.unavailable, unavailable.check_rocksdb, "admin"),
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: _on(lambda v: v.unavailable, unavailable.export_rocksdb, "admin"),
    **dict.fromkeys(_ACCESS, _on(lambda v: v.unavailable, unavailable.manage_access, "admin")),
}


_BY_NUMBER = {int(code): bind for code, bind in _TABLE.items()}


class _Routes(Mapping[int, Route]):
    """The table, bound to what one broker lets requests reach: each route when it is asked for."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._sends = Route(send.SendProcessor(views.send), "send")

    def __getitem__(self, code: int) -> Route:
        return self._sends if code in _SENDS else _BY_NUMBER[code](self._views)

    def __iter__(self) -> Iterator[int]:
        return map(int, (*_TABLE, *_SENDS))

    def __len__(self) -> int:
        return len(_TABLE) + len(_SENDS)


def routes_of(views: Views) -> Mapping[int, Route]:
    """The table, bound to what one broker lets requests reach."""
    return _Routes(views)


def held_route(views: Views) -> Route:
    """What a held request leads to when it is run again."""
    return Route(partial(pull.pull_again, views.pull), "pull")


def default_route() -> Route:
    """What happens to all other codes."""
    return Route(_not_supported, "admin")


def _not_supported(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    remark = f" request type {request.code} not supported"
    return request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def lanes_of(config: BrokerConfig) -> list[Lane]:
    """The lanes as the settings bound them, in Java's irregular keys; the heartbeats come first.

    Limits of time are asked for each time, because they may be changed while the broker runs.
    """

    def age(name: str) -> Callable[[], float]:
        return lambda: getattr(config, name) / 1000 if config.broker_fast_failure_enable else 0.0

    def lane(name: str, threads: int, capacity: int, wait: str | None = None, order: str = "") -> Lane:
        if wait is None:
            return Lane(name=name, threads=threads, capacity=capacity, order=order)
        max_age = age(f"wait_time_mills_in_{wait}_queue")
        return Lane(name=name, threads=threads, capacity=capacity, max_age=max_age, order=order)

    c = config
    return [
        lane("heartbeat", c.heartbeat_thread_pool_nums, c.heartbeat_thread_pool_queue_capacity, "heartbeat", _COMING),
        lane("send", c.send_message_thread_pool_nums, c.send_thread_pool_queue_capacity, "send"),
        lane("pull", c.pull_message_thread_pool_nums, c.pull_thread_pool_queue_capacity, "pull"),
        lane("lite pull", c.lite_pull_message_thread_pool_nums, c.lite_pull_thread_pool_queue_capacity, "lite_pull"),
        lane("reply", c.process_reply_message_thread_pool_nums, c.reply_thread_pool_queue_capacity),
        lane("query", c.query_message_thread_pool_nums, c.query_thread_pool_queue_capacity),
        lane(
            "end transaction",
            c.end_transaction_thread_pool_nums,
            c.end_transaction_pool_queue_capacity,
            "transaction",
        ),
        lane(
            "client",
            c.client_manage_thread_pool_nums,
            c.client_manager_thread_pool_queue_capacity,
            order=_COMING,
        ),
        lane("consumer", c.consumer_manage_thread_pool_nums, c.consumer_manager_thread_pool_queue_capacity),
        lane("ack", c.ack_message_thread_pool_nums, c.ack_thread_pool_queue_capacity, "ack"),
        lane("admin", c.admin_broker_thread_pool_nums, c.admin_broker_thread_pool_queue_capacity, "admin_broker"),
    ]
