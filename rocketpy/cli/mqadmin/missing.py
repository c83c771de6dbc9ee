"""The commands of mqadmin that rocketpy does not support, and what is nearest to each."""

from __future__ import annotations

from typing import Final

__all__ = ["MISSING"]

_ACL: Final = "it does not manage accounts and access lists: use mqadmin"
_CONTROLLER: Final = "it does not know controllers: use mqadmin"
_STATIC: Final = "it does not know static topics: use mqadmin"
_COLD: Final = "it does not know flow control of cold data: use mqadmin"
_ROCKSDB: Final = "it does not read RocksDB: use mqadmin on the machine of the broker"
_CONTAINER: Final = "it does not know broker containers: use mqadmin"

MISSING: Final = {
    "setConsumeMode": "its consumers always pull: leave the mode of groups as it is",
    "resetMasterFlushOffset": "it does not change the positions of slaves: use mqadmin",
    "exportPopRecord": "it does not know POP records: use mqadmin",
    "dumpCompactionLog": "it does not know compacted topics: use mqadmin",
    "setCommitLogReadAheadMode": "it does not change how files are read: use mqadmin",
    "exportMetadataInRocksDB": _ROCKSDB,
    "rocksDBConfigToJson": _ROCKSDB,
    "checkRocksdbCqWriteProgress": _ROCKSDB,
    "addBroker": _CONTAINER,
    "removeBroker": _CONTAINER,
    "updateStaticTopic": _STATIC,
    "remappingStaticTopic": _STATIC,
    "getSyncStateSet": _CONTROLLER,
    "getBrokerEpoch": _CONTROLLER,
    "getControllerMetaData": _CONTROLLER,
    "getControllerConfig": _CONTROLLER,
    "updateControllerConfig": _CONTROLLER,
    "electMaster": _CONTROLLER,
    "cleanBrokerMetadata": _CONTROLLER,
    "getColdDataFlowCtrInfo": _COLD,
    "updateColdDataFlowCtrGroupConfig": _COLD,
    "removeColdDataFlowCtrGroupConfig": _COLD,
    "createUser": _ACL,
    "updateUser": _ACL,
    "deleteUser": _ACL,
    "getUser": _ACL,
    "listUser": _ACL,
    "copyUser": _ACL,
    "createAcl": _ACL,
    "updateAcl": _ACL,
    "deleteAcl": _ACL,
    "getAcl": _ACL,
    "listAcl": _ACL,
    "copyAcl": _ACL,
}
"""What is said of each, by their names in mqadmin."""
