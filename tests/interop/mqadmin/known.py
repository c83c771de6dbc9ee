"""What is known of the steps: where ours differs from Apache's and why, and what neither does. Pure."""

from __future__ import annotations

from tests.interop.mqadmin.outcomes import Known, Refused
from tests.interop.mqadmin.setting_names import only_apaches, only_ours

__all__ = ["KNOWN", "REFUSED"]

NEWER, OLDER = ("5.3.3",), ("4.9.7",)
_FAILURE = r"org\.apache\.rocketmq\.tools\.command\.SubCommandException: \w+ command failed"
_ADVICE = "<advice>"
_UNSUPPORTED = (_FAILURE, _ADVICE, r"Caused by: .*CODE: 3 DESC: <remark>")
_PROPERTIES = "brokers of 4.x do not store the properties MSG_REGION, TRACE_ON and WAIT"


def _code(number: int) -> str:
    return rf".*CODE: {number} DESC: <remark>"


_TABLES = [
    Known(
        r"topicList.*|statsAll",
        "our broker has the internal topics of 5.3.3",
        ours=(
            r"(\{cluster\} )?RMQ_SYS_TRANS_(OP_)?HALF_TOPIC.*",
            r"(\{cluster\} )?rmq_sys_(REVIVE_LOG|SYNC_BROKER_MEMBER|wheel_timer).*",
        ),
        lines=OLDER,
    ),
    Known(
        r"(wipe|add)WritePerm.*",
        "our broker has the internal topics of 5.3.3",
        theirs=(r".* OK, \d+",),
        ours=(r".* OK, \d+",),
        lines=OLDER,
    ),
    Known(
        r"topicList -c|statsAll.*",
        "by mistake, Apache's broker lists the topic as a group too",
        theirs=(r"(\{cluster\} )?Orders Orders.*",),
        lines=NEWER,
    ),
    Known(
        r"brokerStatus.*",
        "our broker counts from the first second on, and has keys of its own; those of 4.x have their old names too",
        ours=(
            r"(\{broker\} )?(EndTransactionQueueHeadWaitTimeMills|halfMessageOffset|runningFlags) ?: .*",
            r"(\{broker\} )?(heldPull|openTransactions|push|transaction|unpushed)\w* ?: .*",
            r"(\{broker\} )?getTransfer\w+ : # # #",
        ),
        at_times=(
            # A figure each over 10, 60 and 600 seconds, as soon as the broker has counted for so long.
            r"(\{broker\} )?(put|get\w+)Tps :( #){0,3}",
            r"(\{broker\} )?putMessageDistributeTime : (null|\[.*)",
        ),
    ),
    Known(
        r"brokerStatus.*",
        "our broker has the keys of 5.3.3 too",
        ours=(r"(\{broker\} )?(ackThread|brokerActive|litePullThread|timer)\w* ?: .*",),
        lines=OLDER,
    ),
    *(
        Known(
            rf"get{server}Config.*",
            "only settings that have an effect are listed; some defaults differ (see [Servers](servers.md))",
            theirs=(only_apaches(broker=broker), rf"(listenPort|shutdownWaitTimeSeconds{more}) = .*"),
            ours=(only_ours(version, broker=broker), rf"(listenPort|shutdownWaitTimeSeconds{more}) = .*"),
            lines=(version,),
        )
        for server, broker, more in (("Broker", True, "|flushCommitLogLeastPages"), ("Namesrv", False, ""))
        for version in NEWER + OLDER
    ),
    Known(
        r"exportConfigs.*|getBrokerConfig.*",
        "our broker has filterServerNums for tools of 4.x, which need it",
        ours=(r"(brokerConfigs\.\{name\}\.)?filterServerNums = \"?0\"?",),
        lines=NEWER,
    ),
]

_MESSAGES = [
    Known(
        r"queryMsgBy(Id .*\{message\}|UniqueKey .*\{unique\}( -a)?|Offset .* -o 1)",
        "by mistake, Apache's broker lists the topic as a group too",
        theirs=(
            r"MessageTrack \[consumerGroup=Orders, trackType=UNKNOWN, .*",
            r"<advice>, .*",
        ),
        ours=(r"MessageTrack \[consumerGroup=audit, .*",),
        lines=NEWER,
    ),
    Known(
        r"queryMsgBy(Id .*\{message\}|UniqueKey .*\{unique\}( -a)?|Offset .* -o 1)"
        r"|(printMsg|consumeMessage).* Orders .*",
        _PROPERTIES,
        theirs=(r"(Properties: |MSGID: ).*",),
        ours=(r"(Properties: |MSGID: ).*(MSG_REGION=DefaultRegion|TRACE_ON=true).*",),
        lines=OLDER,
    ),
    Known(
        r"queryCq.*",
        f"{_PROPERTIES}, so messages are smaller",
        theirs=(r"ConsumeQueueData\{physicOffset=.*",),
        ours=(r"ConsumeQueueData\{physicOffset=.*",),
        lines=OLDER,
    ),
    Known(
        r"sendMessage .* -i 7|updateTopic .* TBW102 .*",
        "INVALID_PARAMETER (29) came with 5.x",
        theirs=(_code(1),),
        ours=(_code(29),),
        lines=OLDER,
    ),
]

_PARTS = [
    Known(
        r"exportPopRecord.*",
        "our broker has no consumption by POP (code 3)",
        theirs=(r"Export broker records, .*",),
        ours=(r"Export broker records error, .*", r"org\.apache.*CODE: 3 DESC: <remark>", _ADVICE),
        lines=NEWER,
    ),
    Known(
        r"setConsumeMode .* -m POP .*",
        "our broker has no consumption by POP (code 3)",
        theirs=(r"set consume mode to .* success\.", r"topic\[.*"),
        ours=_UNSUPPORTED,
        lines=NEWER,
    ),
    Known(
        r"checkRocksdbCqWriteProgress.*",
        "our broker says at once that there is nothing to check; Apache's broker writes that into its log",
        theirs=(r"\{name\} check doing, .*",),
        ours=(r"\{name\} check error, .*",),
        lines=NEWER,
    ),
    Known(
        r"getColdDataFlowCtrInfo.*",
        "our broker does not control reads of cold data (code 3)",
        theirs=(r"[{}]", r"\"\w+\":.*"),
        ours=_UNSUPPORTED,
        lines=NEWER,
    ),
    Known(
        r"(update|remove)ColdDataFlowCtrGroupConfig.*",
        "our broker does not control reads of cold data (code 3)",
        theirs=(r".* success, \{broker\}",),
        ours=_UNSUPPORTED,
        lines=NEWER,
    ),
    Known(
        r"setCommitLogReadAheadMode.*",
        "our broker leaves reading ahead to the system (code 3)",
        theirs=(r"commitLog set readAhead mode .*",),
        ours=_UNSUPPORTED,
        lines=NEWER,
    ),
    Known(
        r"updateStaticTopic.*",
        "our broker has no static topics (code 3)",
        ours=_UNSUPPORTED,
        lines=NEWER,
    ),
    Known(
        r"remappingStaticTopic.*",
        "our broker has no static topics, so there is no such topic",
        theirs=(r"The old mapping data is written to file .*",),
        ours=(_FAILURE, r"Caused by: java\.lang\.RuntimeException: No topic route .*"),
        lines=NEWER,
    ),
    Known(
        r"topicList|exportMetadata .* -t .*/after",
        "the static topic was made at Apache's broker alone",
        theirs=(r"Static", r"topicConfigTable\.Static\..*"),
        lines=NEWER,
    ),
]

_CHANGES = [
    Known(
        r"updateBrokerConfig .* storePathRootDir .*",
        "our broker refuses to change paths (code 16)",
        theirs=(r"update broker config success, .*",),
        ours=(_FAILURE, _code(16), _ADVICE),
        lines=NEWER,
    ),
    Known(
        r"updateBrokerConfig .* noSuchSetting .*",
        "our broker refuses settings that do not exist (code 16)",
        theirs=(r"update broker config success, .*",),
        ours=(_FAILURE, _code(16), _ADVICE),
    ),
    Known(
        r"updateTopic .* Odd .*",
        "our broker says INVALID_PARAMETER (29) instead of SYSTEM_ERROR (1)",
        theirs=(_code(1),),
        ours=(_code(29),),
        lines=NEWER,
    ),
    Known(
        r"resetOffsetByTime -g audit .*|skipAccumulatedMessage -g audit .*",
        "brokers of 4.x need a running consumer for this; with ours the tool need not set each offset by itself",
        theirs=(r"rollback consumer offset by specified consumerGroup.*", r"#brokerName .*", r"\{name\} .*"),
        ours=(r"rollback consumer offset by specified group.*", r"#brokerName .*", r"\{name\} .*"),
        lines=OLDER,
    ),
    Known(
        r"resetOffsetByTime -g nobody .*",
        "our broker names the missing group (code 26), that of 4.x says SYSTEM_ERROR (1)",
        theirs=(_code(1),),
        ours=(_code(26),),
        lines=OLDER,
    ),
    Known(
        r"(clusterAclConfigVersion|getAclConfig).*",
        "our broker keeps no access keys and says so (code 3); Apache's does not answer without ACL",
        theirs=(r"Caused by: .*RemotingTimeoutException: .*",),
        ours=(_code(3), _ADVICE),
        lines=OLDER,
    ),
    Known(
        r"(updateAclConfig|updateGlobalWhiteAddr|deleteAclConfig).*",
        "both refuse: Apache's broker because ACL is off (209 to 211), ours has no such request (code 3)",
        theirs=(r".*CODE: 2(09|10|11) DESC: <remark>",),
        ours=(_code(3),),
        lines=OLDER,
    ),
]

KNOWN = [*_TABLES, *_MESSAGES, *_PARTS, *_CHANGES]

_NOBODY = "nothing has this name"

REFUSED = [
    Refused(r"(topicRoute|topicStatus) -t (Unknown|Leaving)", f"{_NOBODY} (code 17)", _code(17)),
    Refused(r"consumer(Connection|Progress|Status) -g nobody", f"{_NOBODY} (code 17)", _code(17)),
    Refused(r"cloneGroupOffset -s nobody .*", f"{_NOBODY} (code 17)", _code(17)),
    Refused(r"producerConnection -g nobody .*", f"{_NOBODY} (code 1)", _code(1)),
    Refused(r"queryMsgBy(Key .* none|UniqueKey .* 0+)", "there is no such message (code 208 of the tool)", _code(208)),
    Refused(r"sendMessage .* -i 7", "there is no such queue (code 29)", _code(29), lines=NEWER),
    Refused(r"updateTopic .* TBW102 .*", "a topic of the system is not changed (code 29)", _code(29), lines=NEWER),
    Refused(r"resetOffsetByTime -g nobody .*", f"{_NOBODY} (code 26)", _code(26), lines=NEWER),
    Refused(r"updateOrderConf -m get .*", "the configuration has been deleted (code 22)", _code(22)),
    Refused(r"updateNamesrvConfig .* kvConfigPath .*", "paths are not changed (code 16)", _code(16), lines=NEWER),
    Refused(r"dumpCompactionLog.*", "the tool reads a file, which is not there", r".* not exist\.", lines=NEWER),
    Refused(r"getBrokerEpoch.*", "needs a controller (code 1)", _code(1), lines=NEWER),
    Refused(
        r"(getSyncStateSet|getController|updateController|electMaster|cleanBrokerMetadata).*",
        "needs a controller (code 3)",
        _code(3),
        lines=NEWER,
    ),
    Refused(r"(add|remove)Broker .*", "needs a broker container (code 3)", _code(3), lines=NEWER),
    Refused(
        r"(create|update|delete|get|list|copy)(User|Acl) .*", "needs users and ACL (code 1)", _code(1), lines=NEWER
    ),
]
