"""One file, read by Apache's servers and by ours: both print the same settings of it."""

from __future__ import annotations

import re

import pytest

from rocketpy_broker_sim.config import as_properties, read_broker_properties, read_namesrv_properties
from rocketpy_broker_sim.config.table import broker_keys
from tests.interop import jvm, settings
from tests.interop.apache import Apache
from tests.interop.config_keys import PROCESSORS
from tests.interop.process import JavaProcess
from tests.interop.servers import BROKER_MAIN, NAME_SERVER_MAIN, temporary_home

pytestmark = pytest.mark.interop

SECONDS = 60.0
# Everything that a properties text may look like, and settings of every kind.
FILE = r"""
# a comment
! another one
brokerName = broker-of-both
brokerClusterName: a cluster
brokerIP1 127.0.0.1
bindAddress=127.0.0.1
namesrvAddr=127.0.0.1\:9876;\
    127.0.0.1:9877
listenPort=20911
defaultTopicQueueNums=3
defaultTopicQueueNums=5
   brokerPermission   =   4
autoCreateTopicEnable=FALSE
traceOn=false
storePathRootDir=/tmp/somewhere/\u0073tore
storePathCommitLog=/tmp/some\\where
flushDiskType=SYNC_FLUSH
mappedFileSizeCommitLog=4096
mappedFileSizeConsumeQueue=6001
messageDelayLevel=1s 2s\t3s
enabledAppendPropCRC=true
checkCRCOnRecover=false
serverChannelMaxIdleTimeSeconds=7
sendMessageThreadPoolNums=2
startAcceptSendRequestTimeStamp=1700000000000
fileReservedTime=48
diskFallRecorded=true
brokerRole=SYNC_MASTER
unknownKey=x
"""
LINE = re.compile(r" - (\w+)=(.*)$")
OURS_ALONE = {
    "mappedFileSizeConsumeQueue": "Java rounds up to whole units where it uses the value, we where we read it",
}


def printed_by_apache(apache: Apache, main: str, text: str) -> dict[str, str]:
    with temporary_home("printing") as home:
        settings.prepare_home(home)
        file = home / "conf" / "server.conf"
        file.write_text(text, "utf-8")
        options = (*apache.options, f"-XX:ActiveProcessorCount={PROCESSORS}")
        command = jvm.server_command(home, apache.jars, main, heap=128, options=options)
        process = JavaProcess(f"Apache's {main} -p", [*command, "-c", str(file), "-p"], home)
        try:
            process.wait_end(SECONDS)
        finally:
            process.kill()
        # Where the lines go depends on whether that server sets up its logging before it prints.
        log = home / "logs" / settings.LOG_FILE
        lines = [*process.lines, *(log.read_text("utf-8").splitlines() if log.exists() else ())]
    return dict(found.groups() for found in map(LINE.search, lines) if found)


def test_apaches_broker_and_ours_print_the_same_settings_of_a_file(apache: Apache) -> None:
    apaches = printed_by_apache(apache, BROKER_MAIN, FILE)
    config, warnings = read_broker_properties(FILE, "broker.conf")
    ours = as_properties(config)
    assert len(warnings) == 1
    assert "unknownKey" in warnings[0]
    said = {line.strip().split(" ")[0].split("=")[0].rstrip(":") for line in FILE.splitlines()}
    shared = {key for key in ours.keys() & apaches.keys() if key in said and key not in OURS_ALONE}
    assert len(shared) > 18
    assert {key: ours[key] for key in shared} == {key: apaches[key] for key in shared}
    assert {key for key in said if key in broker_keys() and key not in ours} == {"diskFallRecorded"}


def test_name_servers_print_the_same_settings_of_a_file(apache: Apache) -> None:
    text = "listenPort=20876\nkvConfigPath=/tmp/kv.json\norderMessageEnable = true\nserverChannelMaxIdleTimeSeconds=9\n"
    text += "shutdownWaitTimeSeconds=11\n"  # left out, it is another figure here than there
    apaches = printed_by_apache(apache, NAME_SERVER_MAIN, text)
    ours = as_properties(read_namesrv_properties(text)[0])
    shared = ours.keys() & apaches.keys()
    assert {"listenPort", "kvConfigPath", "orderMessageEnable", "serverChannelMaxIdleTimeSeconds"} <= shared
    assert {key: ours[key] for key in shared} == {key: apaches[key] for key in shared}
