"""The internal settings of Java's clients: fields and system properties of the classes behind their settings. Pure.

Every one has a counterpart here, or a reason why there is none. Used by the documentation and by tests alone.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COUNTERPARTS", "REASONS"]

_FIELDS = {
    "connect_timeout": "NettyClientConfig.connectTimeoutMillis com.rocketmq.remoting.client.connect.timeout",
    "idle_timeout": """
        NettyClientConfig.clientChannelMaxIdleTimeSeconds com.rocketmq.remoting.client.channel.maxIdleTimeSeconds
    """,
    "linger": "ProduceAccumulator.holdMs",
    "batch_max_bytes": "ProduceAccumulator.holdSize",
    "total_batch_max_bytes": "ProduceAccumulator.totalHoldSize",
    "back_pressure_for_async_send_num": """
        NettyClientConfig.clientAsyncSemaphoreValue com.rocketmq.remoting.clientAsyncSemaphoreValue
    """,
    "send_latency_enable": "MQFaultStrategy.sendLatencyFaultEnable com.rocketmq.sendLatencyEnable",
    "start_detector_enable": """
        LatencyFaultToleranceImpl.startDetectorEnable MQFaultStrategy.startDetectorEnable
        com.rocketmq.startDetectorEnable
    """,
    "detect_interval": "LatencyFaultToleranceImpl.detectInterval",
    "detect_timeout": "LatencyFaultToleranceImpl.detectTimeout",
    "trace_msg_batch_num": "AsyncTraceDispatcher.batchNum",
    "trace_topic": "AsyncTraceDispatcher.traceTopicName",
    "latency_table": "MQFaultStrategy.latencyMax MQFaultStrategy.notAvailableDuration",
    "group": "RebalanceImpl.consumerGroup ConsumeMessageOrderlyService.consumerGroup",
    "message_model": "RebalanceImpl.messageModel",
    "orderly": "DefaultMQPushConsumerImpl.consumeOrderly",
    "broker_suspend_max_time": "DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS",
    "consumer_timeout_when_suspend": "DefaultMQPushConsumerImpl.CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND",
    "pull_time_delay_when_exception": """
        DefaultMQPushConsumerImpl.pullTimeDelayMillsWhenException
        DefaultLitePullConsumerImpl.pullTimeDelayMillsWhenException
        DefaultLitePullConsumerImpl.PULL_TIME_DELAY_MILLS_ON_EXCEPTION
    """,
    "request_timeout": """
        DefaultMQPushConsumerImpl.ASYNC_TIMEOUT RebalanceImpl.QUERY_ASSIGNMENT_TIMEOUT
        MQClientInstance.LOCK_TIMEOUT_MILLIS
    """,
    "rebalance_interval": "rocketmq.client.rebalance.waitInterval",
    "lock_interval": "rocketmq.client.rebalance.lockInterval",
    "lock_max_live_time": "rocketmq.client.rebalance.lockMaxLiveTime",
}

COUNTERPARTS: Mapping[str, str] = {key: ours for ours, keys in _FIELDS.items() for key in keys.split()}
"""Java's ``Class.field``, or system property -> the setting that does the same."""

_WHY_NOT = {
    "state of an object, not a setting": """
        AsyncTraceDispatcher.COUNTER AsyncTraceDispatcher.INSTANCE_NUM AsyncTraceDispatcher.discardCount
        AsyncTraceDispatcher.isStarted AsyncTraceDispatcher.lastFlushTime AsyncTraceDispatcher.stopped
        AsyncTraceDispatcher.traceInstanceId ConsumeMessageOrderlyService.stopped
        DefaultLitePullConsumerImpl.consumeRequestFlowControlTimes
        DefaultLitePullConsumerImpl.consumerStartTimestamp DefaultLitePullConsumerImpl.nextAutoCommitDeadline
        DefaultLitePullConsumerImpl.queueFlowControlTimes DefaultLitePullConsumerImpl.queueMaxSpanFlowControlTimes
        DefaultLitePullConsumerImpl.serviceState DefaultLitePullConsumerImpl.subscriptionType
        DefaultMQPushConsumerImpl.consumerStartTimestamp DefaultMQPushConsumerImpl.pause
        DefaultMQPushConsumerImpl.queueFlowControlTimes DefaultMQPushConsumerImpl.queueMaxSpanFlowControlTimes
        DefaultMQPushConsumerImpl.serviceState MQClientInstance.bootTimestamp MQClientInstance.clientId
        MQClientInstance.sendHeartbeatTimesTotal MQClientInstance.serviceState PopProcessQueue.dropped
        PopProcessQueue.lastPopTimestamp PopProcessQueue.waitAckCounter ProcessQueue.consuming ProcessQueue.dropped
        ProcessQueue.lastConsumeTimestamp ProcessQueue.lastLockTimestamp ProcessQueue.lastPullTimestamp
        ProcessQueue.locked ProcessQueue.msgAccCnt ProcessQueue.msgCount ProcessQueue.msgSize
        ProcessQueue.queueOffsetMax ProcessQueue.tryUnlockTimes ProduceAccumulator.currentlyHoldSize
        ProduceAccumulator.instanceName RebalanceService.lastRebalanceTimestamp
    """,
    "the text of an error": """
        DefaultLitePullConsumerImpl.NOT_RUNNING_EXCEPTION_MESSAGE
        DefaultLitePullConsumerImpl.SUBSCRIPTION_CONFLICT_EXCEPTION_MESSAGE
    """,
    "taken from the producer or consumer that is traced": "AsyncTraceDispatcher.group AsyncTraceDispatcher.type",
    "messages with trace records have up to 128,000 bytes, and are sent after 5 s, as in Java": """
        AsyncTraceDispatcher.flushTraceInterval AsyncTraceDispatcher.maxMsgSize
    """,
    "closing sends the records that wait, within close_timeout": "AsyncTraceDispatcher.WAIT_FOR_SHUTDOWN",
    "traces go to trace_topic; there are no other channels": "AsyncTraceDispatcher.accessChannel",
    "there are no namespaces: write the names of topics and groups in full": "AsyncTraceDispatcher.namespaceV2",
    "there is no TLS": """
        NettyClientConfig.useTLS tls.client.authServer tls.client.certPath tls.client.keyPassword tls.client.keyPath
        tls.client.trustCertPath tls.config.file tls.enable tls.test.mode.enable
    """,
    "a setting of servers": """
        com.rocketmq.remoting.socket.backlog tls.server.authClient tls.server.certPath tls.server.keyPassword
        tls.server.keyPath tls.server.mode tls.server.need.client.auth tls.server.trustCertPath
    """,
    "there are no proxies; use address_map to rewrite the addresses of brokers": """
        NettyClientConfig.socksProxyConfig com.rocketmq.socks.proxy.config
    """,
    "clients connect to the address that a broker has registered, never to the port next to it":
        "com.rocketmq.sendMessageWithVIPChannel",
    "bodies are always read and decompressed": "com.rocketmq.decompress.body com.rocketmq.read.body",
    "every heartbeat is complete, and is sent at once when something has changed": "com.rocketmq.heartbeat.v2",
    "one thread does the work of all connections, and completions run in the loop": """
        NettyClientConfig.clientCallbackExecutorThreads NettyClientConfig.clientWorkerThreads
        NettyClientConfig.disableCallbackExecutor NettyClientConfig.disableNettyWorkerGroup
        com.rocketmq.remoting.client.worker.size
    """,
    "buffers of sockets are the system's, and bytes are Python's": """
        NettyClientConfig.clientPooledByteBufAllocatorEnable NettyClientConfig.clientSocketRcvBufSize
        NettyClientConfig.clientSocketSndBufSize com.rocketmq.remoting.nettyPooledByteBufAllocatorEnable
        com.rocketmq.remoting.socket.rcvbuf.size com.rocketmq.remoting.socket.sndbuf.size
    """,
    "sending waits while a connection accepts no more bytes; the bound is fixed": """
        NettyClientConfig.clientOnewaySemaphoreValue NettyClientConfig.writeBufferHighWaterMark
        NettyClientConfig.writeBufferLowWaterMark com.rocketmq.remoting.clientOnewaySemaphoreValue
        com.rocketmq.remoting.write.buffer.high.water.mark com.rocketmq.remoting.write.buffer.low.water.mark
    """,
    "a request that times out leaves its connection open": """
        NettyClientConfig.clientCloseSocketIfTimeout com.rocketmq.remoting.client.closeSocketIfTimeout
    """,
    "another name server or connection is opened when it is needed, also after GO_AWAY": """
        NettyClientConfig.channelNotActiveInterval NettyClientConfig.enableReconnectForGoAway
        NettyClientConfig.scanAvailableNameSrv NettyClientConfig.maxReconnectIntervalTimeSeconds
    """,
    "there is no pop consumption": """
        DefaultMQPushConsumerImpl.MAX_POP_INVISIBLE_TIME DefaultMQPushConsumerImpl.MIN_POP_INVISIBLE_TIME
        DefaultMQPushConsumerImpl.popDelayLevel
    """,
    "a busy broker is pulled from again after a fixed time, as in Java": """
        DefaultLitePullConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
        DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL
    """,
    "pulling resumes as soon as the reason for its pause is over, and does not poll for that": """
        DefaultLitePullConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
        DefaultLitePullConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_PAUSE
        DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL
        DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_SUSPEND
    """,
    "routes of a topic are fetched when it is subscribed": """
        DefaultLitePullConsumerImpl.doNotUpdateTopicSubscribeInfoWhenSubscriptionChanged
        DefaultMQPushConsumerImpl.doNotUpdateTopicSubscribeInfoWhenSubscriptionChanged
    """,
    "workers move on to other queues after milliseconds anyway": "rocketmq.client.maxTimeConsumeContinuously",
    "a queue that is not pulled for 120 s without a reason is taken again": "rocketmq.client.pull.pullMaxIdleTime",
    "changes lead to a rebalance at once, and failures are retried after 1 s":
        "rocketmq.client.rebalance.minInterval",
}  # fmt: skip

REASONS: Mapping[str, str] = {key: reason for reason, keys in _WHY_NOT.items() for key in keys.split()}
"""Java's ``Class.field``, or system property -> why it does not exist here."""
