"""The configuration files of a broker: Apache's are read and written back, a bad one is never lost."""

from __future__ import annotations

import errno
import json
import math
from contextlib import suppress
from pathlib import Path

import pytest

from rocketpy.errors import RemoteProtocolError, StoreCorruptError, StoreError
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.persist import ConfigFile, StoredTable, pretty_steps
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.support import golden_file, golden_storage

CONFIG = BrokerConfig(broker_cluster_name="GoldenCluster", broker_name="golden-a")


def tables(storage: MemoryStorage, config: BrokerConfig = CONFIG) -> list[StoredTable]:
    return [TopicTable(config, storage), SubscriptionGroupTable(config, storage), ConsumerOffsetTable(config, storage)]


def read(data: bytes) -> object:
    value = parse_json(data)
    if not isinstance(value, dict):
        raise RemoteProtocolError("no object")
    return value


# --- what Apache's broker wrote ------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(3))
def test_A10_golden_files_of_5x_come_back_with_the_same_meaning(number: int) -> None:
    storage = golden_storage("5.3.3-clean")
    table = tables(storage)[number]
    assert table.load()
    table.persist()
    written = parse_json(storage.read_bytes(f"config/{table.file_name}"))
    golden = parse_json(golden_file("5.3.3-clean", table.file_name))
    if "groupTopicMap" in golden:
        for value in (written, golden):
            value["groupTopicMap"] = {group: sorted(topics) for group, topics in value["groupTopicMap"].items()}
    if isinstance(table, TopicTable):
        # It was written without timers, whose topic we add as Apache's would; the version then rises.
        del written["topicConfigTable"]["rmq_sys_wheel_timer"]
        assert written.pop("dataVersion")["counter"] == golden.pop("dataVersion")["counter"] + 1
    assert written == golden


@pytest.mark.parametrize("number", range(3))
def test_A10_golden_files_of_4x_are_read_with_the_defaults_of_what_they_lack(number: int) -> None:
    table = tables(golden_storage("4.9.7-clean"))[number]
    assert table.load()
    written = parse_json(table.encode())
    golden = parse_json(golden_file("4.9.7-clean", table.file_name))
    for member in ("topicConfigTable", "subscriptionGroupTable", "offsetTable"):
        for name, entry in golden.get(member, {}).items():
            assert entry.items() <= written[member][name].items()


@pytest.mark.parametrize("version", ["4.9.7-clean", "5.3.3-clean"])
@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"])
def test_A10_the_pretty_form_is_that_of_apache_byte_for_byte(version: str, name: str) -> None:
    golden = golden_file(version, name)
    value = parse_json(golden)
    offsets = value.get("offsetTable", {})
    for key, queues in offsets.items():
        if isinstance(queues, dict):
            offsets[key] = {int(queue): offset for queue, offset in queues.items()}
    if name == "delayOffset.json":
        value["offsetTable"] = {int(level): offset for level, offset in offsets.items()}
    assert run_steps(pretty_steps(value)) == golden


def test_the_pretty_form_of_the_rest() -> None:
    assert run_steps(pretty_steps({})) == b"{}"
    assert run_steps(pretty_steps({"a": [], "b": [1, {"c": None}], "d": {}, "e": 'x"\n'})) == (
        b'{\n\t"a":[],\n\t"b":[1,{\n\t\t\t"c":null\n\t\t}],\n\t"d":{},\n\t"e":"x\\"\\n"\n}'
    )
    assert json.loads(run_steps(pretty_steps({"t": True, "f": False, "n": -1.5}))) == {"t": True, "f": False, "n": -1.5}


# --- one file ------------------------------------------------------------------------------------------


def test_A10_the_version_before_is_kept_as_bak() -> None:
    storage = MemoryStorage()
    file = ConfigFile(storage, "x.json")
    assert file.load(read) is None
    file.save(b'{"v":1}')
    assert not storage.exists("config/x.json.bak")
    file.save(b'{"v":2}')
    assert storage.read_bytes("config/x.json") == b'{"v":2}'
    assert storage.read_bytes("config/x.json.bak") == b'{"v":1}'


@pytest.mark.parametrize("damage", [b"", b"{", b'{"v":', b"\x00\x00\x00", b"\xff\xfe", b"[]", b"nonsense"])
def test_A10_threat_M13_a_bad_file_is_replaced_by_its_bak_which_stays(damage: bytes) -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic("config/x.json", damage)
    storage.write_bytes_atomic("config/x.json.bak", b'{"v":1}')
    file = ConfigFile(storage, "x.json")
    assert file.load(read) == {"v": 1}
    file.save(b'{"v":2}')
    assert storage.read_bytes("config/x.json.bak") == b'{"v":1}', "the only good copy was pushed out"
    file.save(b'{"v":3}')
    assert storage.read_bytes("config/x.json.bak") == b'{"v":2}'


def test_A10_a_save_that_the_disk_refuses_touches_neither_file() -> None:
    storage = MemoryStorage()
    file = ConfigFile(storage, "x.json")
    file.save(b'{"v":1}')
    file.save(b'{"v":2}')
    with storage.failing("write_bytes_atomic"), pytest.raises(StoreError, match=r"x\.json"):
        file.save(b'{"v":3}')
    assert storage.read_bytes("config/x.json") == b'{"v":2}'
    assert storage.read_bytes("config/x.json.bak") == b'{"v":1}'


class _Traced(RealStorage):
    """A disk that notes what is done, and dies before a chosen rename."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.renamed: list[tuple[str, str]] = []
        self.renames_left = math.inf

    def rename(self, source: str, target: str) -> None:
        if len(self.renamed) >= self.renames_left:
            raise OSError(errno.EIO, "the disk is gone")
        self.renamed.append((source, target))
        super().rename(source, target)


def test_A10_the_old_file_becomes_the_bak_only_when_the_new_one_is_whole(tmp_path: Path) -> None:
    storage = _Traced(tmp_path)
    file = ConfigFile(storage, "x.json")
    file.save(b'{"v":1}')
    storage.renamed.clear()
    file.save(b'{"v":2}')
    main, backup = "config/x.json", "config/x.json.bak"
    assert storage.renamed == [(main, backup), (main + ".tmp", main)]


@pytest.mark.parametrize(("renames", "found"), [(0, 1), (1, 1), (2, 2)])
def test_A10_a_crash_between_two_steps_of_a_save_loses_nothing(tmp_path: Path, renames: int, found: int) -> None:
    ConfigFile(RealStorage(tmp_path), "x.json").save(b'{"v":1}')
    storage = _Traced(tmp_path)
    storage.renames_left = renames
    with suppress(StoreError):
        ConfigFile(storage, "x.json").save(b'{"v":2}')
    again = ConfigFile(RealStorage(tmp_path), "x.json")
    assert again.load(read) == {"v": found}
    again.save(b'{"v":3}')
    assert ConfigFile(RealStorage(tmp_path), "x.json").load(read) == {"v": 3}
    backup = (tmp_path / "config" / "x.json.bak").read_bytes()
    assert backup == b'{"v":%d}' % found, "the last whole version before it"


@pytest.mark.parametrize("with_backup", [True, False])
def test_threat_M13_two_bad_files_stop_the_start_and_nothing_is_deleted(with_backup: bool) -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic("config/topics.json", b'{"dataVersion":{')
    if with_backup:
        storage.write_bytes_atomic("config/topics.json.bak", b"")
    before = storage.clone()
    with pytest.raises(StoreCorruptError, match=r"topics\.json") as caught:
        TopicTable(CONFIG, storage).load()
    assert caught.value.path == storage.describe("config/topics.json")
    assert storage.list("config") == before.list("config")
    assert all(
        storage.read_bytes(f"config/{name}") == before.read_bytes(f"config/{name}") for name in storage.list("config")
    )


@pytest.mark.parametrize("number", range(3))
def test_A10_a_table_goes_on_with_its_bak(number: int) -> None:
    storage = golden_storage("5.3.3-clean")
    table = tables(storage)[number]
    storage.rename(f"config/{table.file_name}", f"config/{table.file_name}.bak")
    storage.write_bytes_atomic(f"config/{table.file_name}", b'{"half": ')
    assert table.load()
    expected = tables(golden_storage("5.3.3-clean"))[number]
    expected.load()
    if isinstance(table, TopicTable):
        assert isinstance(expected, TopicTable)
        expected.data_version = table.data_version
    assert table.encode() == expected.encode()


# --- when a table is written ---------------------------------------------------------------------------


def test_A10_a_table_is_written_when_it_changed_and_read_again() -> None:
    storage = MemoryStorage()
    table = TopicTable(CONFIG, storage)
    assert not table.load()
    table.persist()
    assert storage.list("config") == []
    table.put(TopicConfig(topic_name="T", read_queue_nums=3, attributes={"message.type": "FIFO"}))
    table.persist()
    again = TopicTable(CONFIG, storage)
    assert again.load()
    assert again.get("T") == table.get("T")
    assert again.data_version == table.data_version


def test_A10_a_change_that_could_not_be_written_is_written_later() -> None:
    storage = MemoryStorage()
    table = ConsumerOffsetTable(CONFIG, storage)
    table.commit("G", "T", 0, 7)
    with storage.failing("write_bytes_atomic"), pytest.raises(StoreError):
        table.persist()
    assert table.changed
    table.persist()
    again = ConsumerOffsetTable(CONFIG, storage)
    again.load()
    assert again.query("G", "T", 0) == 7


def test_the_disk_that_cannot_be_read_is_no_corruption() -> None:
    class Broken(MemoryStorage):
        def read_bytes(self, path: str) -> bytes:
            raise PermissionError(13, "Permission denied", path)

    storage = Broken()
    storage.write_bytes_atomic("config/topics.json", b"{}")
    with pytest.raises(StoreError, match="Permission denied") as caught:
        TopicTable(CONFIG, storage).load()
    assert not isinstance(caught.value, StoreCorruptError)


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_a_file_is_saved_from_pieces_as_from_one(kind: str, tmp_path: Path) -> None:
    storage = MemoryStorage() if kind == "memory" else RealStorage(tmp_path)
    file = ConfigFile(storage, "x.json")
    file.save(b"what was there before, and is longer")
    file.save([b'{"v"', b"", b":1}"])
    assert storage.read_bytes("config/x.json") == b'{"v":1}'
    assert storage.read_bytes("config/x.json.bak") == b"what was there before, and is longer"
