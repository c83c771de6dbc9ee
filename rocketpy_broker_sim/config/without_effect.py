"""Keys of Apache's releases 4.9.7 and 5.3.3 that are accepted without effect, grouped by the reason. Pure.

Keys that would be unsafe to ignore do not belong here: `refused` has them.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BROKER_WITHOUT_EFFECT", "NAMESRV_WITHOUT_EFFECT"]

_BOTH = {
    "threads, buffers and limits of a JVM and of Netty": """
        channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
        clientCloseSocketIfTimeout clientOnewaySemaphoreValue clientPooledByteBufAllocatorEnable
        clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads disableCallbackExecutor
        disableNettyWorkerGroup serverAsyncSemaphoreValue serverCallbackExecutorThreads
        serverNettyWorkerGroupEnable serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
        serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize
        serverWorkerThreads useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark
    """,
    "connections to name servers are opened and closed by other rules": """
        clientChannelMaxIdleTimeSeconds connectTimeoutMillis enableReconnectForGoAway enableShutdownGracefully
        maxReconnectIntervalTimeSeconds scanAvailableNameSrv
    """,
}

_BROKER = {
    "there are no requests of this kind here": """
        ackMessageThreadPoolNums ackThreadPoolQueueCapacity waitTimeMillsInAckQueue
    """,
    "threads, buffers and limits of a JVM and of Netty": """
        asyncSendEnable enableFastChannelEventProcess enableNetWorkFlowControl highSpeedMode
        putMessageFutureThreadPoolNums putThreadPoolQueueCapacity transferMsgByHeap
    """,
    "the name servers are those in namesrvAddr, which is read once": """
        fetchNamesrvAddrInterval loadBalancePollNameServerInterval updateNameServerAddrPeriod
    """,
    "all topics that have changed are registered in one request": """
        enableSingleTopicRegister
    """,
    "pings are one-way: there is no answer to wait for": """
        sendHeartbeatTimeoutMillis
    """,
    "no file is read from or written to such a path": """
        brokerConfigPath configBlackList isolateLogEnable rocketmqHome
    """,
    "a process is one broker": """
        inBrokerContainer isBrokerContainer
    """,
    "there is no access control here": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath authenticationMetadataProvider
        authenticationProvider authenticationStrategy authenticationWhitelist authorizationMetadataProvider
        authorizationProvider authorizationStrategy authorizationWhitelist clusterName configName
        initAuthenticationUser innerClientAuthenticationCredentials migrateAuthFromV1Enabled
        statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond
    """,
    "there are no replicas here": """
        allAckInSyncStateSet asyncLearner brokerIP2 duplicationEnable enableAutoInSyncReplicas
        enableRemoteEscape forwardTimeout haFlowControlEnable haHousekeepingInterval haListenPort
        haMasterAddress haMaxGapNotInSync haMaxTimeSlaveNotCatchup haSendHeartbeatInterval haSlaveFallbehindMax
        haTransferBatchSize lockInStrictMode maxHaTransferByteInSecond maxSlaveResendLength offsetCheckInSlave
        replicasPerDiskPartition skipPreOnline slaveTimeout syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod
        syncFromLastFile syncMasterFlushOffsetWhenStartup totalReplicas
    """,
    "there is no controller here": """
        brokerElectionPriority checkSyncStateSetPeriod controllerAddr controllerHeartBeatTimeoutMills
        fetchControllerAddrByDnsLookup storePathBrokerIdentity storePathEpochFile syncControllerMetadataPeriod
    """,
    "there is no DLedger here": """
        dLegerGroup dLegerPeers dLegerSelfId enableBatchPush preferredLeaderId storePathDLedgerCommitLog
    """,
    "there is no RocksDB here": """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin configManagerVersion
        enableRocksDBLog memTableFlushIntervalMs popConsumerFSServiceInit popConsumerKVServiceEnable
        popConsumerKVServiceInit popConsumerKVServiceLog realTimePersistRocksDBConfig rocksdbCQDoubleWriteEnable
        rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec
    """,
    "there is no pop consumption here": """
        appendAckAsync appendCkAsync defaultPopShareQueueNum enableNotifyAfterPopOrderLockRelease
        enableNotifyBeforePopCalculateLag enablePopBatchAck enablePopBufferMerge enablePopLog
        enablePopMessageThreshold enableRetryTopicV2 enableSkipLongAwaitingAck initPopOffsetByCheckMsgInMem
        loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity maxPopPollingSize
        popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut
        popFromRetryProbability popInflightMessageThreshold popLongPollingForceNotifyInterval popPollingMapSize
        popPollingSize popResponseReturnActualRetryTopic popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
        retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum
        reviveScanTime serverLoadBalancerEnable skipWhenCKRePutReachMaxTimes
    """,
    "one task moves timer messages, and tries until each is stored": """
        timerEnableDisruptor timerEnableRetryUntilSuccess timerGetMessageThreadNum timerPutMessageThreadNum
        timerSkipUnknownError timerWarmEnable
    """,
    "timer messages are counted when they are stored and delivered": """
        timerCheckMetricsWhen timerEnableCheckMetrics timerMetricSmallThreshold timerProgressLogIntervalMs
    """,
    "delayed messages are delivered one queue after the other": """
        enableScheduleAsyncDeliver enableScheduleMessageStats maxDelayTime scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked
    """,
    "there is no compaction of topics here": """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction maxOffsetMapSize
    """,
    "reads of cold data are not slowed down": """
        cgColdReadThreshold coldCtrStrategyEnable coldDataFlowControlEnable coldDataScanEnable
        dataReadAheadEnable globalColdReadThreshold timerColdDataCheckIntervalMs usePIDColdCtrStrategy
    """,
    "the first offsets of queues are corrected whenever log files are deleted": """
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
    """,
    "readers keep no file open, so expired files can be deleted at once": """
        destroyMapedFileIntervalForcibly
    """,
    "Apache's broker does not read them either": """
        enableCleanExpiredOffset maxBatchDeleteFilesNum timerInterceptDelayLevel
    """,
    "each disk is used by one broker only": """
        logicalDiskSpaceCleanForciblyThreshold
    """,
    "nothing waits for the index": """
        putMsgIndexHightWater
    """,
    "statistics are gathered and shown in ways of our own": """
        accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount
        commercialBigCount commercialEnable commercialSizePerMsg commercialTimerCount commercialTransCount
        diskFallRecorded enableDetailStat enableLmqStats estimateAccumulation
        flushConsumerOffsetHistoryInterval maxStatsIdleTimeInMinutes
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel printChannelGroups
        printChannelGroupsMinNum sampleCountThreshold sampleSteps
    """,
    "the settings of the Bloom filter decide the length of a bit map": """
        bitMapLengthConsumeQueueExt
    """,
    "there are no filter classes that clients upload": """
        filterServerNums
    """,
    "slow consumers are not switched off": """
        consumerFallbehindThreshold disableConsumeIfConsumerReadSlowly
    """,
    "batches are never stored as one message": """
        mapperFileSizeBatchConsumeQueue maxLmqConsumeQueueNum pullBatchMaxMessageCount
        searchBcqByCacheEnable
    """,
    "a put never waits in a queue of the store": """
        maxAsyncPutMessageRequests putMessageTimeout
    """,
    "files are not mapped or swapped by hand": """
        accessMessageInMemoryHotRatio cleanSwapedMapInterval commitLogForceSwapMapInterval
        commitLogSwapMapInterval commitLogSwapMapReserveFileNum debugLockEnable enableAsyncReput
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
        mappedFileSwapEnable putConsumeQueueDataByFileChannel
    """,
    "one loop orders all puts, without a lock": """
        spinLockCollisionRetreatOptimalDegree topicQueueLockNum useABSLock useReentrantLockWhenPutMessage
    """,
    "one task writes and dispatches, in order": """
        batchDispatchRequestThreadPoolNums dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread
        enableBuildConsumeQueueConcurrently maxChecksumRange maxConsumeQueueScan maxRecoveryCommitlogFiles
        readUnCommitted recheckReputOffsetFromCq recoverConcurrently recoverThreadPoolNums
    """,
    "subscriptions are forgotten with the last client of their group": """
        cleanOfflineBrokerInterval enableRegisterProducer subscriptionExpiredTimeout useStaticSubscription
    """,
    "clients keep the offsets of broadcasting groups": """
        broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond enableBroadcastOffsetStore
    """,
    "topics take messages of every type": """
        enableMixedMessageType
    """,
    "topic names have at most 127 characters": """
        maxTopicLength
    """,
    "members are notified of changes at once": """
        realTimeNotifyConsumerChange
    """,
    "the retry topics of pop consumption are always deleted with their topic": """
        clearRetryTopicWhenDeleteTopic
    """,
}

_NAMESRV = {
    "threads, buffers and limits of a JVM and of Netty": """
        clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolNums
        defaultThreadPoolQueueCapacity unRegisterBrokerQueueCapacity
    """,
    "no file is read from or written to such a path": """
        configBlackList configStorePath rocketmqHome
    """,
    "there is no controller here": """
        controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId
        controllerRequestThreadPoolQueueCapacity controllerStorePath controllerThreadPoolNums controllerType
        electMasterMaxRetryCount enableElectUncleanMaster jraftConfig mappedFileSize notifyBrokerRoleChanged
        processReadEvent scanInactiveMasterInterval
    """,
    "statistics are gathered and shown in ways of our own": """
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
    """,
    "no other environment is asked for routes": """
        productEnvName
    """,
}


def _by_key(*groups: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for group in groups for reason, keys in group.items() for key in keys.split()}


BROKER_WITHOUT_EFFECT: Mapping[str, str] = _by_key(_BOTH, _BROKER)
"""Key of a broker's file -> why it changes nothing."""
NAMESRV_WITHOUT_EFFECT: Mapping[str, str] = _by_key(_BOTH, _NAMESRV)
"""Key of a name server's file -> why it changes nothing."""
