"""rocketpy-store on stores of Apache's and of ours: what it shows is what they hold, and nothing is changed."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.cli.store_kit import GOLDEN, NAMES, Look, fill, golden_copy, golden_rows, ours
from tests.broker_sim.store.golden import GoldenStore
from tests.broker_sim.store.helpers import message, put_all
from tests.golden_store import unpacked


def contents(root: Path) -> dict[str, tuple[int, str]]:
    """Every file with its time and content."""
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in root.rglob("*")
        if path.is_file()
    }


def without_statistics(row: dict) -> dict:
    """4.9.7 told nothing of these topics, so whether a pull found them is not known."""
    hidden = row.get("topic") in ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
    return {key: value for key, value in row.items() if not (hidden and key == "pulledLive")}


# --- what Apache's decoder says too ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_log_is_shown_as_apaches_decoder_shows_it(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    rows, known = look.rows("commitlog", golden.root), golden.lines
    if name.endswith("timer"):
        # Which of these the broker gave away is told by its route, not by the store.
        rows, known = [[{**row, "pulledLive": None} for row in each] for each in (rows, known)]
    if name.startswith("4."):
        rows, known = list(map(without_statistics, rows)), list(map(without_statistics, known))
    assert rows == known
    assert [json.dumps(row, sort_keys=True) for row in rows] == [json.dumps(row, sort_keys=True) for row in known]


@pytest.mark.parametrize("name", NAMES)
def test_the_messages_of_every_queue_are_those_of_the_list(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    queues, known = golden.queues(), golden.messages
    assert queues
    for topic, queue_id in queues:
        rows = look.rows("messages", golden.root, "--topic", topic, "--queue", queue_id)
        expected = [row for row in known if (row.get("topic"), row.get("queueId")) == (topic, queue_id)]
        assert list(map(without_statistics, rows)) == list(map(without_statistics, expected))


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_of_the_queues_are_what_the_broker_said(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    rows = look.rows("ls", golden.root, "--queues")
    found = {(row["topic"], row["queueId"]): (row["minOffset"], row["maxOffset"]) for row in rows}
    assert golden.queues().items() <= found.items()
    assert all(row["count"] == row["maxOffset"] - row["minOffset"] for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_those_that_are_there(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    rows = [row for row in look.rows("ls", golden.root) if row["kind"] == "file"]
    golden.facts["files"].pop("timerwheel", None)  # 38 MB of zeros, which the copy goes without
    assert {row["path"]: row["size"] for row in rows} == golden.facts["files"]
    written = [row for row in rows if row["path"].startswith("commitlog/") and row["begin"] < row["end"]]
    assert written[-1]["end"] == golden.facts["commitlog_end"]


@pytest.mark.parametrize("name", NAMES)
def test_the_checkpoint_is_read_as_java_wrote_it(look, name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    (row,) = look.rows("checkpoint", golden.root)
    assert golden.facts["checkpoint"].items() <= row.items()
    assert row["flushedPosition"] is row["dispatchedPosition"] is None


def test_our_own_positions_of_the_checkpoint(look, tmp_path):
    store = ours(tmp_path / "s")
    fill(store)
    end = store.written_position
    store.close()
    (row,) = look.rows("checkpoint", tmp_path / "s")
    assert row["flushedPosition"] == row["dispatchedPosition"] == end
    assert any(line.startswith("flushedPosition") and str(end) in line for line in look("checkpoint", tmp_path / "s"))


# --- looking changes nothing -------------------------------------------------------------------------


def test_looking_changes_nothing_even_where_a_broker_would(look, tmp_path):
    store = golden_copy("5.3.3-killed", tmp_path)
    (store / "commitlog" / f"{327680:020d}").touch()  # as a crash while a file was made leaves it
    before = contents(store)
    for command in ("ls", "commitlog", "checkpoint"):
        look(command, store)
        assert look.status == 0
    look("messages", store, "-t", "GS_A", "-q", 0)
    look("consumequeue", store, "-t", "GS_A", "-q", 0)
    assert contents(store) == before


def test_the_storage_refuses_every_change(tmp_path):
    from rocketpy_broker_sim.store.inspect.read_only import ReadOnlyStorage

    golden = golden_copy("5.3.3-v2-topic", tmp_path)
    before = contents(golden)
    storage = ReadOnlyStorage(golden)
    for change in (
        lambda: storage.open("x", create=True),
        lambda: storage.write_bytes_atomic("x", b""),
        lambda: storage.rename("checkpoint", "x"),
        lambda: storage.unlink("checkpoint"),
        lambda: storage.remove_dir("config"),
        lambda: storage.make_dir("x"),
        lambda: storage.sync_dir(""),
        lambda: storage.lock("lock"),
        lambda: storage.open("checkpoint").pwrite(b"x", 0),
        lambda: storage.open("checkpoint").truncate(0),
    ):
        with pytest.raises(OSError, match=r"."):
            change()
    assert contents(golden) == before


def test_a_running_store_is_looked_into_beside_its_broker(look, tmp_path):
    store = ours(tmp_path / "s")
    fill(store, 30)
    assert len([row for row in look.rows("commitlog", tmp_path / "s") if row["kind"] == "message"]) == 30
    fill(store, 30)
    assert len(look.rows("messages", tmp_path / "s", "-t", "Orders", "-q", 1)) == 20
    assert "runs, or did not stop in order" in look("ls", tmp_path / "s")[-1]
    store.close()
    assert "runs" not in look("ls", tmp_path / "s")[-1]


def test_a_store_that_may_only_be_read(look, tmp_path, monkeypatch):
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *more: opened.append(flags) or real(path, flags, *more))
    look("commitlog", unpacked("5.3.3-clean"))
    assert opened
    assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) for flags in opened)


# --- ranges and bodies -------------------------------------------------------------------------------


def test_a_part_of_the_log(look):
    store, known = unpacked("5.3.3-clean"), golden_rows("5.3.3-clean")
    rows = look.rows("commitlog", store, "--from", known[10]["physicalOffset"], "--limit", 5)
    assert rows == known[10:15]


def test_a_part_of_a_queue(look):
    store = unpacked("5.3.3-clean")
    rows = look.rows("messages", store, "-t", "GS_A", "-q", 2, "--from", 10, "--limit", 7)
    assert [row["queueOffset"] for row in rows] == list(range(10, 17))
    units = look.rows("consumequeue", store, "-t", "GS_A", "-q", 2, "--from", 10, "--limit", 7)
    assert [unit["physicalOffset"] for unit in units] == [row["physicalOffset"] for row in rows]
    assert [unit["storeSize"] for unit in units] == [row["storeSize"] for row in rows]


def test_all_bodies_on_request(look):
    store = unpacked("5.3.3-clean")
    rows = look.rows("messages", store, "-t", "GS_A", "-q", 1, "--bodies")
    assert any(row["bodyLength"] > 512 for row in rows)
    for row in rows:
        assert hashlib.sha256(base64.b64decode(row["body"])).hexdigest() == row["bodySha256"]


def test_messages_that_are_gone_from_the_log(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    (store / "commitlog" / f"{0:020d}").unlink()
    rows = look.rows("messages", store, "-t", "GS_A", "-q", 0, "--from", 0)
    gone = [row for row in rows if row["kind"] == "missing"]
    assert gone
    assert {row["reason"] for row in gone} == {"the message is gone, the log begins behind it"}
    shown = look.rows("messages", store, "-t", "GS_A", "-q", 0)
    assert shown == [row for row in rows if row["kind"] == "message"]
    assert look.rows("ls", store, "--queues")[2]["minOffset"] == len(gone)


# --- names and bodies of strangers -------------------------------------------------------------------


def test_nothing_in_a_store_commands_the_terminal(look, tmp_path):
    store = ours(tmp_path / "s")
    body = "\x1b[2J\x1b]0;owned\x07 \u202ebackwards\r\n[red]x[/red]".encode()
    put_all(store, [message(body, properties="TAGS\x01\x1b[31m\x02KEYS\x01a\x9bb\x02")])
    store.close()
    (tmp_path / "s" / "consumequeue" / "\x1b[5mevil" / "0").mkdir(parents=True)
    for command, *arguments in (
        ("ls",),
        ("commitlog",),
        ("messages", "-t", "Orders", "-q", 0),
        ("messages", "-t", "Orders", "-q", 0, "--json"),
    ):
        look(command, tmp_path / "s", *arguments)
        assert look.status == 0
        assert all(line.isprintable() for line in look.out.splitlines())
    assert "\\x1b[2J" in "".join(look("messages", tmp_path / "s", "-t", "Orders", "-q", 0))
    assert program_refuses(look, tmp_path / "s", "\x1b[2J").isprintable()


def program_refuses(look: Look, store: Path, topic: str) -> str:
    look("messages", store, "-t", topic, "-q", 0)
    assert look.status == 2
    return look.err.strip()


def test_rich_draws_on_a_terminal_and_takes_no_markup(look, tmp_path, monkeypatch):
    pytest.importorskip("rich")
    store = ours(tmp_path / "s")
    put_all(store, [message(b"[bold]not bold[/bold]")])
    store.close()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "[bold]not bold[/bold]" in "\n".join(look("messages", tmp_path / "s", "-t", "Orders", "-q", 0))


# --- what cannot be shown ----------------------------------------------------------------------------


def refusal(look: Look, *arguments: object) -> str:
    look(*arguments)  # type: ignore[arg-type]
    assert look.out == ""
    assert len(look.err.splitlines()) == 1, look.err
    assert "Traceback" not in look.err
    return look.err


def test_directories_that_are_no_store(look, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    store = golden_copy("5.3.3-clean", tmp_path)
    for directory, said in (
        (tmp_path / "missing", "is not a directory"),
        (tmp_path / "file", "is not a directory"),
        (tmp_path / "empty", "it has no folder commitlog"),
        (store / "commitlog", "a folder within a store"),
        (tmp_path, "'5.3.3-clean' in it has one"),
    ):
        assert said in refusal(look, "ls", directory)
        assert look.status == 2


@pytest.mark.parametrize("folder", ["consumequeue_r", "rocksdbstore", "dledger-n0"])
def test_threat_M12_stores_of_another_kind_are_named(look, tmp_path, folder):
    store = golden_copy("5.3.3-clean", tmp_path)
    (store / folder).mkdir()
    assert "store of another kind" in refusal(look, "ls", store)
    assert look.status == 2


def test_threat_M12_links_and_other_things_in_place_of_files(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    first = store / "commitlog" / f"{0:020d}"
    content = first.read_bytes()
    first.unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    first.symlink_to(tmp_path / "elsewhere")
    assert "is not a regular file" in refusal(look, "commitlog", store)
    assert str(first) in look.err
    assert look.status == 1
    first.unlink()
    os.mkfifo(first)
    assert "is not a regular file" in refusal(look, "commitlog", store)


def test_threat_M12_files_that_cannot_be_read(look, tmp_path, monkeypatch):
    store = golden_copy("5.3.3-clean", tmp_path)
    forbidden = store / "commitlog" / f"{0:020d}"
    open_file = os.open

    def guarded(path, *arguments, **options):
        if Path(path) == forbidden:  # not by its mode, which means nothing to root
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(os, "open", guarded)
    assert "permission denied" in refusal(look, "commitlog", store)
    assert look.status == 2


def test_queues_that_are_not_there(look):
    store = unpacked("5.3.3-clean")
    assert "it has 0, 1, 2, 3" in refusal(look, "messages", store, "-t", "GS_A", "-q", 9)
    assert look.status == 2
    assert "there are no queues of topic 'None'" in refusal(look, "consumequeue", store, "-t", "None", "-q", 0)


def test_usage(look, capsys):
    for arguments in (["ls"], ["frobnicate", "x"], ["messages", "x"], ["messages", "x", "-t", "T", "-q", "-1"]):
        with pytest.raises(SystemExit) as ended:
            look(arguments[0], *arguments[1:]) if len(arguments) > 1 else look("ls", "--nothing")
        assert ended.value.code == 2
    assert "-1" in capsys.readouterr().err


def test_sizes_come_from_the_settings_or_from_the_files(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    plain = look.rows("commitlog", store)
    (tmp_path / "broker.conf").write_text((GOLDEN / "5.3.3-clean" / "broker.conf").read_text())
    assert look.rows("commitlog", store, "-c", tmp_path / "broker.conf") == plain
    (store.parent / "broker.conf").write_text("mappedFileSizeCommitLog=nonsense")
    assert look.rows("commitlog", store) == plain
    assert "mappedFileSizeCommitLog" in refusal(look, "commitlog", store, "-c", tmp_path / "broker.conf")
    assert look.status == 2


def test_settings_say_nothing_of_a_port_that_is_not_opened(look, tmp_path):
    (tmp_path / "b.conf").write_text("mappedFileSizeCommitLog=131072\nmappedFileSizeComitLog=1\n")
    look("commitlog", unpacked("5.3.3-clean"), "-c", tmp_path / "b.conf")
    assert look.status == 0
    assert "did you mean mappedFileSizeCommitLog?" in look.err
    assert len(look.err.splitlines()) == 1


def test_names_of_files_and_topics_are_shown_whole(look):
    store = unpacked("5.3.3-v2-topic")
    topics = {row["topic"] for row in look.rows("ls", store, "--queues")}
    assert max(map(len, topics)) > 200
    assert {line.split()[0] for line in look("ls", store, "--queues")[1:]} == topics
    paths = {row["path"] for row in look.rows("ls", store) if row["kind"] == "file"}
    assert paths <= {line.split()[0] for line in look("ls", store) if line}


def test_a_store_in_which_nothing_is_yet(look, tmp_path):
    (tmp_path / "commitlog").mkdir()
    assert look("ls", tmp_path) == ["no files", "", "no queues"]
    assert look("commitlog", tmp_path) == ["nothing there"]
    assert look("index", tmp_path) == ["no index files"]
    assert look("query", tmp_path, "-t", "T", "--key", "k") == ["no such message"]
    assert look("commitlog", tmp_path, "--json") == []
    assert "there are none at all" in refusal(look, "messages", tmp_path, "-t", "T", "-q", "0")
    assert look("messages", unpacked("5.3.3-clean"), "-t", "GS_A", "-q", "0", "--from", "65") == ["no messages there"]


def test_a_queue_without_files_is_empty(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    (store / "consumequeue" / "GS_A" / "9").mkdir()
    (row,) = [row for row in look.rows("ls", store, "--queues") if row["queueId"] == 9]
    assert (row["topic"], row["minOffset"], row["maxOffset"], row["count"]) == ("GS_A", 0, 0, 0)


def test_a_log_that_lies_elsewhere(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    plain = look.rows("commitlog", store)
    (store / "commitlog").rename(tmp_path / "log")
    (tmp_path / "b.conf").write_text(f"storePathCommitLog={tmp_path / 'log'}\nmappedFileSizeCommitLog=131072\n")
    assert look.rows("commitlog", store, "-c", tmp_path / "b.conf") == plain


def test_of_two_logs_the_one_in_the_directory_is_shown_and_neither_is_repaired(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    config = tmp_path / "b.conf"
    config.write_text(f"storePathCommitLog={tmp_path / 'log'}\nmappedFileSizeCommitLog=131072\n")
    plain = look.rows("commitlog", store, "-c", config)
    assert "storePathCommitLog" not in look.err
    shutil.copytree(store / "commitlog", tmp_path / "log")
    assert look.rows("commitlog", store, "-c", config) == plain
    assert f"there is a log in {tmp_path / 'log'} too (storePathCommitLog)" in look.err
    for options in ([], ["--dry-run"], ["--rebuild"]):
        look("repair", store, "-c", config, *options)
        assert look.status == 2
        assert f"two logs, {store / 'commitlog'} and {tmp_path / 'log'} (storePathCommitLog)" in look.err
    assert not (store / "quarantine").exists()
    (tmp_path / "link").symlink_to(store / "commitlog")
    config.write_text(f"storePathCommitLog={tmp_path / 'link'}\nmappedFileSizeCommitLog=131072\n")
    look("repair", store, "-c", config, "--dry-run")
    assert (look.status, look.err) == (1, "")  # as the settings say another size for the queues


# --- as a process ------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-m", "rocketpy_broker_sim.cli.store.main", "commitlog"]
    process = subprocess.Popen(
        [*command, str(unpacked("5.3.3-clean")), "--json", "--bodies"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) in (0, 141)
    process.stderr.close()


def at_once(*arguments: str, before: Sequence[str] = (), **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    command = [*before, sys.executable, "-m", "rocketpy_broker_sim.cli.store.main", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options)


@pytest.mark.slow
def test_a_terminal_that_knows_few_letters_gets_the_others_escaped(tmp_path):
    store = ours(tmp_path / "s")
    put_all(store, [message("ein Kännchen 咖啡".encode(), topic="Orders")])
    store.close()
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = at_once("commitlog", str(tmp_path / "s"), stdout=subprocess.PIPE, env=environment, encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ein Kännchen \\u5496\\u5561" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written_is_one_line(options):
    with Path("/dev/full").open("w") as full:
        done = at_once("ls", str(unpacked("5.3.3-clean")), *options, stdout=full)
    assert done.returncode == 2
    assert done.stderr == (
        "rocketpy-store: error: writing the output failed: No space left on device; send it to another place\n"
    )


def test_output_that_nobody_wants_is_no_error():
    store = unpacked("5.3.3-clean")
    done = at_once("check", str(store), before=["sh", "-c", 'exec "$0" "$@" >&-'])
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_is_quiet(look, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rocketpy_broker_sim.cli.store.checkpoint.checkpoint_row", interrupted)
    look("checkpoint", unpacked("5.3.3-clean"))
    assert (look.status, look.out, look.err) == (130, "", "")


def test_the_lock_of_a_running_broker_is_neither_taken_nor_needed(look, tmp_path):
    store = golden_copy("5.3.3-clean", tmp_path)
    release = RealStorage(store).lock("lock")
    before = contents(store)
    look("ls", store)
    assert look.status == 0
    assert contents(store) == before
    release()


def test_the_tool_loads_neither_the_loop_nor_what_only_servers_need():
    """It runs where servers do not, and starts at once."""
    code = "import sys, rocketpy_broker_sim.cli.store.main; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"trio", "rich", "rocketpy_broker_sim.cli.running"} & set(done.stdout.split())


PEAKS = """
import sys, tracemalloc
from rocketpy_broker_sim.cli.store.main import main

for store in sys.argv[1:]:
    tracemalloc.start()
    assert main(["check", store]) == 0
    print("peak", tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path):
    """In a process of its own, in which nobody else takes memory meanwhile."""
    counts = (300, 1000, 8000)
    for count in counts:
        store = ours(tmp_path / str(count), mapped_file_size_commit_log=65536, mapped_file_size_consume_queue=2000)
        fill(store, count)
        store.close()
    command = [sys.executable, "-c", PEAKS, *(str(tmp_path / str(count)) for count in counts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("peak ")]
    _first, few, many = peaks  # the first look has what is made only once
    assert many < few + 300_000
