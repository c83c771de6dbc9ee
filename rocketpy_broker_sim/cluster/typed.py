"""The settings of clusters as keywords, for type checkers and editors: ``**settings: Unpack[ClusterSettings]``.

They are the settings of brokers and name servers in snake case, without those that a cluster sets itself. No code
imports this module at run time.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from rocketpy_broker_sim.config.store import BrokerRole, FlushDiskType

__all__ = ["ClusterSettings"]

FlushName: TypeAlias = Literal["SYNC_FLUSH", "ASYNC_FLUSH", "sync_flush", "async_flush"]
RoleName: TypeAlias = Literal["ASYNC_MASTER", "SYNC_MASTER", "async_master", "sync_master"]


class ServerSettings(TypedDict, total=False):
    """The settings of `NettyServerConfig` and `MetricsConfig`, which brokers and name servers have."""

    bind_address: str
    metrics_prom_exporter_host: str
    server_channel_max_idle_time_seconds: int
    shutdown_wait_time_seconds: int


class NameServerSettings(ServerSettings, total=False):
    """The settings of `NamesrvConfig`."""

    order_message_enable: bool
    return_order_topic_config_to_broker: bool
    scan_not_active_broker_interval: int
    support_acting_master: bool
    enable_all_topic_list: bool
    enable_topic_list: bool
    notify_min_broker_id_changed: bool
    need_wait_for_service: bool
    wait_seconds_for_service: int
    delete_topic_with_broker_registration: bool
    max_kept_bytes: int


class StoreSettings(TypedDict, total=False):
    """The settings of `MessageStoreConfig`."""

    mapped_file_size_commit_log: int
    mapped_file_size_consume_queue: int
    warm_maped_file_enable: bool
    flush_least_pages_when_warm_maped_file: int
    enable_consume_queue_ext: bool
    mapped_file_size_consume_queue_ext: int
    max_message_size: int
    auto_message_version_on_topic_len: bool
    enabled_append_prop_crc: bool
    os_page_cache_busy_time_out_mills: int
    message_delay_level: str
    timer_wheel_enable: bool
    mapped_file_size_timer_log: int
    timer_precision_ms: int
    timer_roll_window_slot: int
    timer_max_delay_sec: int
    timer_congest_num_each_slot: int
    timer_flush_interval_ms: int
    timer_stop_enqueue: bool
    timer_stop_dequeue: bool
    disappear_time_after_start: int
    message_index_enable: bool
    max_hash_slot_num: int
    max_index_num: int
    message_index_safe: bool
    max_msgs_num_batch: int
    default_query_max_num: int
    flush_disk_type: FlushDiskType | FlushName
    sync_flush_timeout: int
    flush_interval_commit_log: int
    flush_commit_log_timed: bool
    wake_flush_when_put_message: bool
    flush_commit_log_least_pages: int
    flush_commit_log_thorough_interval: int
    transient_store_pool_enable: bool
    transient_store_pool_size: int
    fast_fail_if_no_buffer_in_store_pool: bool
    commit_interval_commit_log: int
    wake_commit_when_put_message: bool
    commit_commit_log_least_pages: int
    commit_commit_log_thorough_interval: int
    flush_interval_consume_queue: int
    flush_consume_queue_least_pages: int
    flush_consume_queue_thorough_interval: int
    clean_resource_interval: int
    delete_when: str
    file_reserved_time: int
    disk_max_used_space_ratio: int
    disk_space_clean_forcibly_ratio: int
    disk_space_warning_level_ratio: int
    clean_file_forcibly_enable: bool
    delete_file_batch_max: int
    delete_commit_log_files_interval: int
    delete_consume_queue_files_interval: int
    redelete_hanged_file_interval: int
    check_crc_on_recover: bool
    force_verify_prop_crc: bool
    max_transfer_bytes_on_message_in_memory: int
    max_transfer_count_on_message_in_memory: int
    max_transfer_bytes_on_message_in_disk: int
    max_transfer_count_on_message_in_disk: int
    access_message_in_memory_max_ratio: int
    max_queues: int
    memory_size: int | None
    max_filter_message_size: int
    travel_cq_file_num_when_get_message: int
    flush_delay_offset_interval: int
    broker_role: BrokerRole | RoleName


class ClusterSettings(NameServerSettings, StoreSettings, total=False):
    """The settings of `BrokerConfig`, and all others of a cluster."""

    broker_name: str
    broker_cluster_name: str
    broker_ip1: str
    region_id: str
    trace_on: bool
    register_broker_timeout_mills: int
    register_name_server_period: int
    force_register: bool
    compressed_register: bool
    enable_split_registration: bool
    split_registration_size: int
    broker_heartbeat_interval: int
    broker_not_active_timeout_millis: int
    enable_slave_acting_master: bool
    compatible_with_old_name_srv: bool
    broker_permission: int
    default_topic_queue_nums: int
    auto_create_topic_enable: bool
    cluster_topic_enable: bool
    broker_topic_enable: bool
    auto_create_subscription_group: bool
    enable_create_sys_group: bool
    trace_topic_enable: bool
    msg_trace_topic_name: str
    validate_system_topic_when_update_topic: bool
    start_accept_send_request_time_stamp: int
    recall_message_enable: bool
    allow_recall_when_broker_not_writeable: bool
    store_reply_message_enable: bool
    long_polling_enable: bool
    short_polling_time_mills: int
    lite_pull_message_enable: bool
    slave_read_enable: bool
    reject_pull_consumer_enable: bool
    notify_consumer_ids_changed_enable: bool
    use_server_side_reset_offset: bool
    channel_expired_timeout: int
    flush_consumer_offset_interval: int
    consumer_offset_update_version_step: int
    delay_offset_update_version_step: int
    reject_transaction_message: bool
    transaction_time_out: int
    transaction_check_interval: int
    transaction_check_max: int
    transaction_op_batch_interval: int
    transaction_op_msg_max_size: int
    transaction_metric_flush_interval: int
    metrics_otel_cardinality_limit: int
    enable_property_filter: bool
    filter_support_retry: bool
    enable_calc_filter_bit_map: bool
    expect_consumer_num_use_filter: int
    max_error_rate_of_bloom_filter: int
    filter_data_clean_time_span: int
    send_message_thread_pool_nums: int
    pull_message_thread_pool_nums: int
    lite_pull_message_thread_pool_nums: int
    ack_message_thread_pool_nums: int
    process_reply_message_thread_pool_nums: int
    query_message_thread_pool_nums: int
    admin_broker_thread_pool_nums: int
    client_manage_thread_pool_nums: int
    consumer_manage_thread_pool_nums: int
    heartbeat_thread_pool_nums: int
    end_transaction_thread_pool_nums: int
    send_thread_pool_queue_capacity: int
    pull_thread_pool_queue_capacity: int
    lite_pull_thread_pool_queue_capacity: int
    ack_thread_pool_queue_capacity: int
    reply_thread_pool_queue_capacity: int
    query_thread_pool_queue_capacity: int
    client_manager_thread_pool_queue_capacity: int
    consumer_manager_thread_pool_queue_capacity: int
    heartbeat_thread_pool_queue_capacity: int
    end_transaction_pool_queue_capacity: int
    admin_broker_thread_pool_queue_capacity: int
    broker_fast_failure_enable: bool
    wait_time_mills_in_send_queue: int
    wait_time_mills_in_pull_queue: int
    wait_time_mills_in_lite_pull_queue: int
    wait_time_mills_in_heartbeat_queue: int
    wait_time_mills_in_transaction_queue: int
    wait_time_mills_in_ack_queue: int
    wait_time_mills_in_admin_broker_queue: int
    max_topics: int
    max_groups: int
    max_clients_per_group: int
    max_groups_per_client: int
    max_consumer_offsets: int
    max_memberships: int
    max_held_pulls: int
    max_held_pulls_per_connection: int
    max_hold_millis: int
