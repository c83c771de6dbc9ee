"""Settings of a broker, named as Java names them. Plays the part of BrokerConfig and BrokerIdentity.

Times are milliseconds, because the keys are Java's. The settings of the store and of the listening server are parts
of it: `store` and `server`.
"""

from __future__ import annotations

import os

import attrs

from rocketpy_broker_sim.config.kinds import count, number, own, switch, text
from rocketpy_broker_sim.config.metrics import MetricsConfig
from rocketpy_broker_sim.config.server import NettyServerConfig
from rocketpy_broker_sim.config.settings import Settings
from rocketpy_broker_sim.config.store import MessageStoreConfig

__all__ = ["BROKER_PORT", "MASTER_ID", "BrokerConfig"]

BROKER_PORT = 10911
MASTER_ID = 0
_CPUS = os.cpu_count() or 1


@attrs.define(kw_only=True, eq=False, repr=False)
class BrokerConfig(Settings):
    """The settings of a broker: its name and address, what it permits, and its limits. Units are Java's."""

    # --- identity ---
    broker_name: str = text("broker-a")
    """Name of the broker in routes; masters of one cluster have different names."""
    broker_cluster_name: str = text("DefaultCluster")
    """Name of the cluster that the broker belongs to."""
    broker_id: int = number(MASTER_ID)
    """Id of the broker among those of its name; 0 is the master."""
    broker_ip1: str = text("", key="brokerIP1")
    """Address for clients; "" stands for the address listened on, or the first one of the machine."""
    region_id: str = text("DefaultRegion")
    """Region, which is sent to producers and added to messages."""
    trace_on: bool = switch(True)
    """Whether the broker asks clients to send traces."""

    # --- name servers ---
    namesrv_addr: str = text("")
    """Name servers as "a:9876;b:9876"; with "", the broker does not register."""
    register_broker_timeout_mills: int = count(24_000)
    """Time that a name server may take for a registration."""
    register_name_server_period: int = number(30_000)
    """Time between registrations, limited to 10 s to 60 s."""
    force_register: bool = switch(True)
    """Whether to register at every interval; if not, the broker asks a name server first whether it needs that."""
    compressed_register: bool = switch(False)
    """Whether registrations are compressed."""
    enable_split_registration: bool = switch(False)
    """Whether to register topics in pieces even if there are few; more than 5000 are always registered in pieces."""
    split_registration_size: int = count(800)
    """Topics in a piece, limited to 2 to 5000."""
    broker_heartbeat_interval: int = count(1000)
    """Time between pings to name servers, which are sent only with `enable_slave_acting_master`."""
    broker_not_active_timeout_millis: int = number(10_000)
    """Time without a ping after which name servers take the broker for dead; with `enable_slave_acting_master` only."""
    enable_slave_acting_master: bool = switch(False)
    """Whether to ping name servers, and ask them to let a replica act as master."""
    compatible_with_old_name_srv: bool = switch(True)
    """Whether to ping with QUERY_DATA_VERSION, which every name server knows."""

    # --- topics and groups ---
    broker_permission: int = number(6, at_most=7)
    """Permissions of clients: 4 is read, 2 is write, 6 is both."""
    default_topic_queue_nums: int = count(8)
    """The largest number of queues of a topic that is created on first use."""
    auto_create_topic_enable: bool = switch(True)
    """Whether a topic is created when a message is sent to it."""
    cluster_topic_enable: bool = switch(True)
    """Whether the topic with the name of the cluster may be read and written."""
    broker_topic_enable: bool = switch(True)
    """Whether the topic with the name of the broker may be read and written."""
    auto_create_subscription_group: bool = switch(True)
    """Whether a consumer group is created when it first consumes."""
    enable_create_sys_group: bool = switch(True)
    """Whether the groups that tools use are created on first use."""
    trace_topic_enable: bool = switch(False)
    """Whether the topic of message traces exists."""
    msg_trace_topic_name: str = text("RMQ_SYS_TRACE_TOPIC")
    """Name of the topic of message traces."""
    validate_system_topic_when_update_topic: bool = switch(True)
    """Whether changes of system topics are refused."""
    start_accept_send_request_time_stamp: int = number(0)
    """Time, in ms since 1970, before which sends are refused."""
    recall_message_enable: bool = switch(False)
    """Whether producers may recall messages that are not due yet."""
    allow_recall_when_broker_not_writeable: bool = switch(True)
    """Whether producers may recall messages while `broker_permission` does not include write."""
    store_reply_message_enable: bool = switch(True)
    """Whether replies to requests are also stored, besides being pushed to the client that made the request."""

    # --- consumers ---
    long_polling_enable: bool = switch(True)
    """Whether a pull that finds no message is held for as long as it requests."""
    short_polling_time_mills: int = number(1000)
    """Time for which a pull is held if long polling is off."""
    lite_pull_message_enable: bool = switch(True)
    """Whether lite pulls are answered."""
    slave_read_enable: bool = switch(False)
    """Whether answers to pulls far behind suggest a replica."""
    reject_pull_consumer_enable: bool = switch(False)
    """Whether consumers other than push consumers are refused."""
    notify_consumer_ids_changed_enable: bool = switch(True)
    """Whether members are notified of changes of their group."""
    use_server_side_reset_offset: bool = switch(True)
    """Whether the broker keeps offsets that administrators reset, and answers the next pull with them."""
    channel_expired_timeout: int = count(120_000)
    """Time without a heartbeat after which a client is forgotten."""
    flush_consumer_offset_interval: int = count(5000)
    """Time between two writes of consumer offsets."""
    consumer_offset_update_version_step: int = count(500)
    """Number of commits after which the table of offsets gets a new version."""
    delay_offset_update_version_step: int = count(200)
    """Number of deliveries after which the table of delay offsets gets a new version."""

    # --- transactions ---
    reject_transaction_message: bool = switch(False)
    """Whether messages of transactions are refused."""
    transaction_time_out: int = number(6000)
    """Time before the first check of a transaction, unless its message asks for another."""
    transaction_check_interval: int = count(30_000)
    """Time between two checks of the transactions that have not ended."""
    transaction_check_max: int = number(15)
    """Number of checks after which a transaction is discarded."""
    transaction_op_batch_interval: int = number(3000)
    """Time for which ends of transactions are collected before they are written together."""
    transaction_op_msg_max_size: int = count(4096)
    """Bytes of ends of transactions that are written at once, before that time has passed."""
    transaction_metric_flush_interval: int = count(3000)
    """Time between two writes of the number of open transactions."""

    # --- metrics ---
    metrics_otel_cardinality_limit: int = count(50_000)
    """The largest number of samples that a metric has in an answer to Prometheus; further ones are left out."""

    # --- filters by properties ---
    enable_property_filter: bool = switch(False)
    """Whether consumers may subscribe by SQL92."""
    filter_support_retry: bool = switch(False)
    """Whether retry topics subscribed by SQL92 are filtered by the group's expressions for the original topics."""
    enable_calc_filter_bit_map: bool = switch(False)
    """Whether each message gets a bit map of the filters that it matches; only with `enable_consume_queue_ext`."""
    expect_consumer_num_use_filter: int = number(32, at_least=1, at_most=10_000)
    """Number of filters that bit maps are sized for."""
    max_error_rate_of_bloom_filter: int = number(20, at_least=1, at_most=99)
    """Percentage of unwanted messages that a bit map may let through."""
    filter_data_clean_time_span: int = number(86_400_000)
    """Time for which a filter is kept after its last use."""

    # --- lanes: how many at once ---
    send_message_thread_pool_nums: int = count(min(_CPUS, 4))
    pull_message_thread_pool_nums: int = count(16 + 2 * _CPUS)
    lite_pull_message_thread_pool_nums: int = count(16 + 2 * _CPUS)
    ack_message_thread_pool_nums: int = count(16)
    process_reply_message_thread_pool_nums: int = count(16 + 2 * _CPUS)
    query_message_thread_pool_nums: int = count(8 + _CPUS)
    admin_broker_thread_pool_nums: int = count(16)
    client_manage_thread_pool_nums: int = count(32)
    consumer_manage_thread_pool_nums: int = count(32)
    heartbeat_thread_pool_nums: int = count(min(32, _CPUS))
    end_transaction_thread_pool_nums: int = count(max(8 + 2 * _CPUS, 4 * min(_CPUS, 4)))

    # --- lanes: how many may wait ---
    send_thread_pool_queue_capacity: int = count(10_000)
    pull_thread_pool_queue_capacity: int = count(100_000)
    lite_pull_thread_pool_queue_capacity: int = count(100_000)
    ack_thread_pool_queue_capacity: int = count(100_000)
    reply_thread_pool_queue_capacity: int = count(10_000)
    query_thread_pool_queue_capacity: int = count(20_000)
    client_manager_thread_pool_queue_capacity: int = count(1_000_000)
    consumer_manager_thread_pool_queue_capacity: int = count(1_000_000)
    heartbeat_thread_pool_queue_capacity: int = count(50_000)
    end_transaction_pool_queue_capacity: int = count(100_000)
    admin_broker_thread_pool_queue_capacity: int = count(10_000)

    # --- lanes: how long they may wait ---
    broker_fast_failure_enable: bool = switch(True)
    """Whether requests that have waited too long are answered SYSTEM_BUSY; if not, they wait for their turn."""
    wait_time_mills_in_send_queue: int = number(200)
    wait_time_mills_in_pull_queue: int = number(5000)
    wait_time_mills_in_lite_pull_queue: int = number(5000)
    wait_time_mills_in_heartbeat_queue: int = number(31_000)
    wait_time_mills_in_transaction_queue: int = number(3000)
    wait_time_mills_in_ack_queue: int = number(3000)
    wait_time_mills_in_admin_broker_queue: int = number(5000)

    # --- bounds of ours, not of Java's ---
    max_topics: int = own(100_000)
    """The largest number of topics."""
    max_groups: int = own(100_000)
    """The largest number of consumer groups."""
    max_clients_per_group: int = own(2000)
    """The largest number of clients in a group."""
    max_groups_per_client: int = own(2048)
    """The largest number of consumer groups that a client is in; for producer groups, the limit is the same."""
    max_consumer_offsets: int = own(1_000_000)
    """The largest number of consumer offsets, one for each group and queue."""
    max_memberships: int = own(1_000_000)
    """The largest number of memberships of all clients in consumer groups; for producer groups, the limit is the
    same."""
    max_held_pulls: int = own(100_000)
    """The largest number of held pulls."""
    max_held_pulls_per_connection: int = own(10_000)
    """The largest number of held pulls of one connection."""
    max_hold_millis: int = own(30_000)
    """The longest time for which a pull is held, even if it requests a longer one."""
    max_kept_bytes: int = own(256 * 1024 * 1024)
    """The memory budget for data from peers, in bytes; at most half of it is used for tables."""

    store: MessageStoreConfig = attrs.Factory(MessageStoreConfig)
    metrics: MetricsConfig = attrs.Factory(MetricsConfig)
    server: NettyServerConfig = attrs.Factory(lambda: NettyServerConfig(listen_port=BROKER_PORT))
