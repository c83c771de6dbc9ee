"""What fails today and will not for long: a list that only gets shorter.

An entry that passes fails the run. Entries are by server and code, or by the name of a test.
"""

from __future__ import annotations

KNOWN: dict[str, frozenset[str]] = {
    "broker-UPDATE_BROKER_CONFIG": frozenset(["65,536 bytes of lines"]),
    "broker-INVOKE_BROKER_TO_RESET_OFFSET": frozenset(["eight resets of 65,536 queues"]),
    "broker-UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST": frozenset(["most in groupConfigList"]),
    "namesrv-PUT_KV_CONFIG": frozenset(["500 keys", "500 namespaces", "values of 1 MiB"]),
    "namesrv-DELETE_KV_CONFIG": frozenset(["texts at all lengths"]),
}
