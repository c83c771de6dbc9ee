"""The files an Apache server reads at start: its properties and a logging setup, all below one home.

Sizes are those of a test: small mapped files, a small index. Waits that make a busy machine answer
SYSTEM_BUSY are longer than Apache's, since two cores carry both sides of every test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CLUSTER = "InteropCluster"
LOOPBACK = "127.0.0.1"
LOG_FILE = "apache.log"

QUICK_RETRIES = {"messageDelayLevel": "1s 5s 1s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2h"}
"""The shared brokers retry after 1 s (level 3), not after 10: a test of a retry need not wait for it."""

_LOGBACK = """\
<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder class="ch.qos.logback.classic.encoder.PatternLayoutEncoder">
      <pattern>%d{{HH:mm:ss.SSS}} %-5p [%t] %logger{{12}} - %m%n</pattern>
    </encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def prepare_home(home: Path) -> None:
    """Lay out a ROCKETMQ_HOME: the names 4.x asks for and the one we hand to 5.x are the same setup."""
    for name in ("conf", "logs"):
        (home / name).mkdir(parents=True, exist_ok=True)
    text = _LOGBACK.format(log=home / "logs" / LOG_FILE)
    for name in ("logback.xml", "logback_namesrv.xml", "logback_broker.xml", "logback_tools.xml"):
        (home / "conf" / name).write_text(text, encoding="utf-8")


def write_properties(path: Path, values: Mapping[str, object]) -> None:
    """Write a Java properties file; booleans in Java's spelling."""
    lines = (f"{key}={str(value).lower() if isinstance(value, bool) else value}\n" for key, value in values.items())
    path.write_text("".join(lines), encoding="utf-8")


def name_server_properties(home: Path, port: int) -> dict[str, object]:
    """What our Apache name servers differ in from the defaults."""
    return {
        "rocketmqHome": home,
        "listenPort": port,
        "bindAddress": LOOPBACK,
        "kvConfigPath": home / "kvConfig.json",
    }


SELDOM_FLUSHED = {"timerFlushIntervalMs": 60_000}
"""A broker of 5.x compares the 19 MB of its timer wheel with the file at every flush, which takes a sixth of a core.

A test whose timers have to outlive a kill sets it back.
"""


def broker_properties(home: Path, *, name: str, namesrv: str, listen: int, ha: int) -> dict[str, object]:
    """What our Apache brokers differ in from the defaults."""
    store = home / "store"
    return {
        "rocketmqHome": home,
        "brokerClusterName": CLUSTER,
        "brokerName": name,
        "brokerId": 0,
        "brokerIP1": LOOPBACK,
        "brokerIP2": LOOPBACK,
        "bindAddress": LOOPBACK,
        "listenPort": listen,
        "haListenPort": ha,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "mappedFileSizeCommitLog": 16 * 1024 * 1024,
        "mappedFileSizeConsumeQueue": 20 * 20_000,
        "mappedFileSizeTimerLog": 1024 * 1024,
        "maxHashSlotNum": 50_000,
        "maxIndexNum": 200_000,
        # A disk more than 85 % full would make the broker delete messages that a test still wants.
        "cleanFileForciblyEnable": False,
        "traceTopicEnable": False,
        "enablePropertyFilter": True,
        # 5.x does nothing else from its start until this has passed, and keeps a core busy with it.
        "transactionMetricFlushInterval": 300,
        "waitTimeMillsInSendQueue": 5_000,
        "osPageCacheBusyTimeOutMills": 5_000,
    }
