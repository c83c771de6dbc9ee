"""Attacks that do not hold yet, by server and code: the page of hostile peers names them, and no run fails for them.

It only gets shorter.
"""

from __future__ import annotations

KNOWN: dict[str, frozenset[str]] = {
    "broker-UPDATE_BROKER_CONFIG": frozenset(["65,536 bytes of lines"]),
    "broker-INVOKE_BROKER_TO_RESET_OFFSET": frozenset(["eight resets of 65,536 queues"]),
    "broker-UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST": frozenset(
        [
            "four times the most in groupConfigList.subscriptionDataSet",
            "most full in groupConfigList",
            "most full in groupConfigList.attributes",
            "most full in groupConfigList.subscriptionDataSet",
            "most in groupConfigList",
            "most in groupConfigList.attributes",
            "most in groupConfigList.subscriptionDataSet",
            "numbers of the body at their ends",
        ]
    ),
    "broker-SEND_BATCH_MESSAGE": frozenset(["a batch of many keys"]),
    "broker-GET_SUBSCRIPTIONGROUP_CONFIG": frozenset(["numbers at their ends"]),
    "broker-UPDATE_AND_GET_GROUP_FORBIDDEN": frozenset(["numbers at their ends"]),
    "namesrv-PUT_KV_CONFIG": frozenset(["500 keys", "500 namespaces", "values of 1 MiB"]),
    "namesrv-DELETE_KV_CONFIG": frozenset(["texts at all lengths"]),
}
