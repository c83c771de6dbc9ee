"""The parts of the harness that need no JVM."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop import artifacts, cache, forks, probe, settings, toolchain
from tests.interop.artifacts import Artifacts
from tests.interop.failure import InteropError, tail
from tests.interop.ports import BLOCK_SIZE, is_free, port_block
from tests.interop.process import JavaProcess, running_reports
from tests.interop.requirement import require

END_SECONDS = 30.0


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.ENVIRONMENT_KEY, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    settings.prepare_home(tmp_path)
    return tmp_path


def child(home: Path, program: str) -> JavaProcess:
    return JavaProcess("child", [sys.executable, "-u", "-c", program], home)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", 0),
    ],
)
def test_java_says_its_version_in_several_ways(text: str, version: int) -> None:
    assert toolchain.parse_java_version(text) == version


def test_without_java_the_reason_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on PATH" in (toolchain.missing_tools(resolved=True) or "")


def test_maven_is_wanted_only_for_jars_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "tool", lambda name: None if name == "mvn" else f"/usr/bin/{name}")
    monkeypatch.setattr(toolchain, "java_version", lambda java: 17)
    assert toolchain.missing_tools(resolved=True) is None
    assert "no mvn on PATH" in (toolchain.missing_tools(resolved=False) or "")


def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(toolchain, "java_version", lambda java: 8)
    assert "is Java 8" in (toolchain.missing_tools(resolved=True) or "")


@pytest.mark.parametrize(
    ("value", "strict"), [("true", True), ("1", True), ("", False), ("false", False), ("0", False)]
)
def test_ci_forbids_skips(monkeypatch: pytest.MonkeyPatch, value: str, *, strict: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert toolchain.nothing_may_be_skipped() is strict


def test_a_missing_tool_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    require(None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no java"):
        require("no java")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"no java \(CI is set"):
        require("no java")


def test_artifacts_count_as_resolved_only_while_every_jar_is_there(own_cache: Path) -> None:
    artifacts = Artifacts("9.9.9")
    assert artifacts.resolved() is None
    (own_cache / "repository").mkdir()
    (own_cache / "repository" / "a.jar").touch()
    artifacts.record.write_text("repository/a.jar\n", encoding="utf-8")
    assert artifacts.resolve() == (own_cache / "repository" / "a.jar",)
    (own_cache / "repository" / "a.jar").unlink()
    assert artifacts.resolved() is None


@pytest.mark.parametrize("broken", ["fails", "does not end"])
def test_maven_goes_on_with_a_download_that_failed(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, broken: str
) -> None:
    tries: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        tries.append(command)
        assert "-Daether.connector.requestTimeout=20000" in command
        if len(tries) < artifacts.ATTEMPTS:
            if broken == "does not end":
                raise subprocess.TimeoutExpired(command, 1)
            return subprocess.CompletedProcess(command, 1, "Read timed out")
        jar = own_cache / "a.jar"
        jar.touch()
        (listing,) = (each.partition("=")[2] for each in command if each.startswith("-Dmdep.outputFile="))
        Path(listing).write_text(str(jar), "utf-8")
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(artifacts, "tool", lambda name: name)
    monkeypatch.setattr(artifacts.subprocess, "run", run)
    assert Artifacts("9.9.9").resolve() == (own_cache / "a.jar",)
    assert ["-U" in each for each in tries] == [False, True, True]


def test_another_pom_makes_another_record(own_cache: Path) -> None:
    assert Artifacts("5.3.3").record != Artifacts("4.9.7").record
    assert Artifacts("5.3.3").pom.count("<version>5.3.3</version>") == 4
    assert own_cache.is_dir()


def test_port_blocks_do_not_overlap() -> None:
    with port_block() as first, port_block() as second:
        assert abs(first - second) >= BLOCK_SIZE
        with socket.create_server(("127.0.0.1", first)):
            assert not is_free(first)
        assert is_free(first)


def test_properties_are_written_in_javas_spelling(tmp_path: Path) -> None:
    settings.write_properties(tmp_path / "p", {"a": True, "b": 1, "c": tmp_path})
    assert (tmp_path / "p").read_text(encoding="utf-8") == f"a=true\nb=1\nc={tmp_path}\n"


def test_the_probe_reads_what_it_writes() -> None:
    frame = probe.encode(105, {"topic": "T", "n": 3}, b"{0:1}")
    (total,) = struct.unpack_from(">i", frame)
    assert total == len(frame) - 4
    answer = probe.decode(frame[4:])
    assert (answer.code, answer.fields) == (105, {"topic": "T", "n": "3"})
    assert answer.json() == {"0": 1}


def test_the_probe_reads_binary_headers() -> None:
    fields = b"\0\6offset\0\0\0\x0212" + b"\0\1k\0\0\0\3\xe5\x8c\x97"
    header = struct.pack(">hbhiii", 0, 0, 479, 7, 1, 2) + b"ok" + struct.pack(">i", len(fields)) + fields
    answer = probe.decode(struct.pack(">I", 1 << 24 | len(header)) + header + b"body")
    assert (answer.code, answer.remark, answer.body) == (0, "ok", b"body")
    assert answer.fields == {"offset": "12", "k": "北"}


def test_a_look_that_never_succeeds_says_what_it_met() -> None:
    def refused() -> None:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(InteropError, match=r"no answer within 0\.01 s, last: ConnectionRefusedError\('nobody there'\)"):
        probe.eventually(refused, "answer", 0.01)


def test_a_line_is_found_whether_past_or_coming(home: Path) -> None:
    process = child(home, "print('one'); print(input().upper())")
    try:
        assert process.wait_line(lambda line: line == "one", "one", 30.0) == "one"
        process.write_line("two")
        assert process.wait_line(lambda line: line == "TWO", "two", 30.0) == "TWO"
        assert process.wait_end(30.0) == 0
    finally:
        process.kill()


def test_a_process_that_ends_early_is_reported_with_its_errors(home: Path) -> None:
    process = child(home, "import sys; sys.exit('no such luck')")
    try:
        with pytest.raises(InteropError, match=r"(?s)child ended before luck.*no such luck"):
            process.wait_line(lambda line: "luck" in line, "luck", 30.0)
        with pytest.raises(InteropError, match="ended with status 1"):
            process.wait_end(30.0)
    finally:
        process.kill()


def test_a_process_is_stopped_and_forgotten(home: Path) -> None:
    process = child(home, "print('up'); input()")
    process.wait_line(lambda line: line == "up", "up", 30.0)
    assert "child" in dict(running_reports())
    with pytest.raises(InteropError, match="did not end"):
        process.wait_end(0.01)
    assert process.stop() == -15
    assert "child" not in dict(running_reports())
    assert not process.running


@pytest.mark.waits("a process may take its time to end, and is killed then")
def test_a_process_deaf_to_the_signal_is_killed(home: Path) -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); input()"
    process = child(home, program)
    process.wait_line(lambda line: line == "up", "up", 30.0)
    assert process.stop(timeout=0.05) == -9


def test_a_server_of_ours_is_a_process_of_its_own(home: Path) -> None:
    config = home / "conf" / "server.properties"
    settings.write_properties(config, settings.name_server_properties(home, 0))
    environment = {"XDG_RUNTIME_DIR": str(home)}
    for arguments, ended in ((["-p", "-c", str(config)], 0), (["--no-such-option"], 2)):
        process = JavaProcess("printing", ["namesrv", *arguments], home, environment=environment, start=forks.start)
        assert process.wait_end(END_SECONDS, expect=ended) == ended
        process.kill()  # does nothing to it any more
    assert "--no-such-option" in process.report()
    command = ["namesrv", "-c", str(config)]
    served = JavaProcess("serving", command, home, environment=environment, start=forks.start)
    served.wait_line(lambda line: "boot success" in line, "its boot success line", END_SECONDS)
    with pytest.raises(InteropError, match=r"did not end within 0\.01 s"):
        served.wait_end(0.01)
    assert Path(f"/proc/{served.pid}/cwd").resolve() == home or not Path("/proc").exists()
    assert served.kill() == -signal.SIGKILL
    assert not served.running


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("1\n2\n3\n", encoding="utf-8")
    assert tail(tmp_path / "log", 2) == "2\n3"
    assert tail(tmp_path / "none") == "(none: No such file or directory)"
