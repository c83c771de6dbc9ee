"""Options, files and refusals of the server commands, in this process: none of these serves."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
from types import ModuleType

import pytest

from rocketpy.errors import ServiceCrashedError
from rocketpy_broker_sim.cli import broker, namesrv, sim
from rocketpy_broker_sim.cli.options import IMPORTANT
from rocketpy_broker_sim.cli.running import run_command
from rocketpy_broker_sim.config import parse_properties
from rocketpy_broker_sim.config.table import broker_keys
from tests.broker_sim.cli.servers import FREE_PORT, STOCK, Place


@pytest.fixture(autouse=True)
def at_home(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, place.environment[name])
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.fixture(autouse=True)
def no_handlers_are_left():
    before = list(logging.getLogger().handlers), logging.getLogger().level
    yield
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command said when it ended."""
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if ": warning: " not in line]
    assert len(lines) == 1, captured.err
    return lines[0]


# --- printing ------------------------------------------------------------------------------------------


def test_the_stock_configuration_is_printed_under_javas_keys(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.main(["-c", place.write("broker.conf", STOCK), "-p"]) == 0
    printed = parse_properties(capsys.readouterr().out)
    rows = broker_keys()
    meant = {key: value for key, value in parse_properties(STOCK).items() if rows[key].field is not None}
    assert meant.items() <= printed.items()
    assert set(meant) == set(parse_properties(STOCK))
    assert (printed["listenPort"], printed["bindAddress"]) == ("10911", "0.0.0.0")
    assert len(printed) > 80


@pytest.mark.parametrize("option", ["-p", "-m"])
def test_printing_a_file_says_what_is_odd_about_it(
    place: Place, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file = place.write("broker.conf", "bindAddress=127.0.0.1\nbrokerNmae=b")
    assert broker.main(["-c", file, option]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        f"rocketpy-broker: warning: {file}, line 2: unknown key 'brokerNmae' is ignored: did you mean brokerName?"
    ]
    assert "bindAddress=127.0.0.1" in printed.out.splitlines()


def test_the_important_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.main(["-m"]) == 0
    printed = parse_properties(capsys.readouterr().out)
    assert tuple(printed) == IMPORTANT
    assert printed["bindAddress"] == "127.0.0.1"


def test_the_settings_of_a_name_server(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert namesrv.main(["--configFile", place.write("n.conf", "listenPort=1234"), "--printConfigItem"]) == 0
    printed = parse_properties(capsys.readouterr().out)
    assert (printed["listenPort"], printed["bindAddress"]) == ("1234", "0.0.0.0")
    assert printed["kvConfigPath"] == "~/namesrv/kvConfig.json"


def printed_settings(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    assert broker.main([*arguments, "-p"]) == 0
    return parse_properties(capsys.readouterr().out)


def test_name_servers_come_from_the_environment_the_file_and_the_option(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place.write("b.conf", "namesrvAddr=b:9876")
    assert printed_settings(capsys)["namesrvAddr"] == ""
    monkeypatch.setenv("NAMESRV_ADDR", "a:9876")
    assert printed_settings(capsys)["namesrvAddr"] == "a:9876"
    assert printed_settings(capsys, "-c", file)["namesrvAddr"] == "b:9876"
    assert printed_settings(capsys, "-c", file, "-n", "c:9876;d:9876")["namesrvAddr"] == "c:9876;d:9876"


def test_the_last_of_a_doubled_key_wins(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    file = place.write("b.conf", "brokerName=first\nbrokerName=last\n")
    assert printed_settings(capsys, "-c", file)["brokerName"] == "last"


def test_files_are_read_in_whatever_they_are_written(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for encoding in ("utf-8-sig", "utf-8", "latin-1"):
        (place.home / "b.conf").write_bytes("brokerName=b # \xe9\n# caf\xe9".replace(" # \xe9", "").encode(encoding))
        assert printed_settings(capsys, "-c", str(place.home / "b.conf"))["brokerName"] == "b"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (broker.main, namesrv.main, sim.main):
        for option in ("-h", "--version"):
            with pytest.raises(SystemExit) as ended:
                main([option])
            assert ended.value.code == 0
    assert "--configFile" in capsys.readouterr().out


# --- refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "enableDLegerCommitLog=true",
        "enableControllerMode=true",
        "grpcServerPort=8081",
        "storeType=defaultRocksDB",
        "brokerRole=SLAVE",
        "flushDiskType=NOW",
        "listenPort=many",
        "namesrvAddr=nowhere",
    ],
)
def test_a_file_that_asks_for_what_is_not_here(place: Place, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert broker.main(["-c", place.write("b.conf", line)]) == 2
    said = refused(capsys)
    assert said.startswith("rocketpy-broker: error: ")
    assert re.search(line.partition("=")[0] + "|nowhere", said)
    assert not (place.home / "store").exists()


@pytest.mark.parametrize("options", [["--enable-proxy"], ["-pm", "local"], ["-pc", "proxy.json", "-n", "a:9876"]])
def test_the_options_of_the_proxy_are_refused_by_name(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert broker.main(options) == 2
    said = refused(capsys)
    assert options[0] in said
    assert "proxy is not available" in said


def test_a_controller_in_a_name_server(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert namesrv.main(["-c", place.write("n.conf", "enableControllerInNamesrv=true")]) == 2
    assert "enableControllerInNamesrv" in refused(capsys)


@pytest.mark.parametrize("main", [broker.main, namesrv.main])
@pytest.mark.parametrize("name", ["missing.conf", "."])
def test_a_file_that_cannot_be_read(place: Place, capsys: pytest.CaptureFixture[str], main, name: str) -> None:
    assert main(["-c", str(place.home / name)]) == 2
    assert "cannot be read" in refused(capsys)


def test_a_log_that_cannot_be_written(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.main(["--log", str(place.home / "none" / "log")]) == 2
    assert "cannot be written: No such file" in refused(capsys)


def test_a_log_without_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert broker.main(["--log", ""]) == 2
    assert "--log needs the name of a file" in refused(capsys)


def test_an_option_that_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    for main in (broker.main, namesrv.main, sim.main):
        with pytest.raises(SystemExit) as ended:
            main(["--frobnicate"])
        assert ended.value.code == 2
    assert "--frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
def test_threat_A3_the_sim_lets_other_machines_in_only_on_request(
    capsys: pytest.CaptureFixture[str], host: str
) -> None:
    assert sim.main(["--host", host, "--port", "0"]) == 2
    assert "insecure" in refused(capsys)


def test_a_port_that_is_taken(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = place.write("s.conf", f"bindAddress=127.0.0.1\nlistenPort={port}\n")
        assert broker.main(["-c", file]) == 1
        assert f"127.0.0.1:{port}" in refused(capsys)
        assert namesrv.main(["-c", file]) == 1
        assert f"127.0.0.1:{port}" in refused(capsys)
        assert sim.main(["serve", "--port", str(port)]) == 1
        assert f"127.0.0.1:{port}" in refused(capsys)
    assert not (place.home / "store" / "abort").exists()


@pytest.mark.parametrize("port", ["x", "-1", "64501", "70000"])
def test_a_port_that_is_none(capsys: pytest.CaptureFixture[str], port: str) -> None:
    with pytest.raises(SystemExit) as ended:
        sim.main(["--port", port])
    assert ended.value.code == 2
    assert f"'{port}' is not a number from 0 to 64500" in capsys.readouterr().err


def test_a_store_where_none_can_be(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    occupied = place.write("file", "not a folder")
    file = place.write("b.conf", f"{FREE_PORT}storePathRootDir={occupied}/store")
    assert broker.main(["-c", file]) == 1
    said = refused(capsys)
    assert "a file stands where a folder is needed" in said
    assert occupied in said


def test_refusals_and_warnings_reach_the_log_and_the_screen(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    file = place.write("b.conf", f"frobnicate=1\nlistenPort=0\nstorePathRootDir={place.write('file', '')}/x")
    log = place.home / "log"
    assert broker.main(["-c", file, "--log", str(log)]) == 1
    screen = capsys.readouterr().err
    for text in (screen, log.read_text("utf-8")):
        assert "unknown key 'frobnicate'" in text
        assert "listening on every interface without credentials" in text
        assert "a file stands where a folder is needed" in text


LEVELS = ["debug", "info", "warning", "error"]


def log_of_every_level() -> int:
    for level in LEVELS:
        logging.getLogger("rocketpy_broker_sim.broker").log(logging.getLevelName(level.upper()), "a %s line", level)
    return 0


@pytest.mark.parametrize(("wanted", "first"), [(None, "warning"), *zip(LEVELS, LEVELS, strict=True)])
def test_standard_error_has_the_lines_from_the_level_that_was_chosen(
    capsys: pytest.CaptureFixture[str], wanted: str | None, first: str
) -> None:
    assert run_command("rocketpy-broker", None, log_of_every_level, log_level=wanted) == 0
    expected = [f"rocketpy-broker: {level}: a {level} line" for level in LEVELS[LEVELS.index(first) :]]
    assert capsys.readouterr().err.splitlines() == expected


@pytest.mark.parametrize(("wanted", "first"), [(None, "info"), *zip(LEVELS, LEVELS, strict=True)])
def test_a_file_has_the_lines_from_the_level_that_was_chosen(
    place: Place, capsys: pytest.CaptureFixture[str], wanted: str | None, first: str
) -> None:
    log = place.home / "log"
    assert run_command("rocketpy-broker", str(log), log_of_every_level, log_level=wanted) == 0
    texts = [line.rpartition(": ")[2] for line in log.read_text("utf-8").splitlines()]
    assert texts == [f"a {level} line" for level in LEVELS[LEVELS.index(first) :]]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [broker, namesrv, sim])
def test_a_level_that_is_none(capsys: pytest.CaptureFixture[str], command: ModuleType) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--log-level", "loud"])
    assert ended.value.code == 2
    assert "--log-level: invalid choice: 'loud'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [broker, namesrv])
def test_the_commands_of_servers_pass_the_level_on(
    place: Place, capsys: pytest.CaptureFixture[str], command: ModuleType
) -> None:
    file = place.write("odd.conf", "frobnicate=1\n")
    for level, is_there in (("warning", True), ("error", False)):
        assert command.main(["-c", file, "-p", "--log-level", level]) == 0
        assert ("unknown key 'frobnicate'" in capsys.readouterr().err) is is_there


def test_the_simulator_passes_the_level_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "serve", lambda opening: log_of_every_level())
    assert sim.main(["--log-level", "error"]) == 0
    assert capsys.readouterr().err == "rocketpy-broker-sim: error: a error line\n"


# --- stop ----------------------------------------------------------------------------------------------


def test_nothing_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim.main(["stop", "broker"]) == 1
    assert refused(capsys) == "rocketpy-broker-sim: error: no rocketpy-broker of yours runs here"


def test_run_files_of_somebody_else_are_not_believed(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    directory = place.home / "run" / "rocketpy"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "broker-1.run").write_text('{"pid": 1, "name": "init", "address": ""}')
    assert sim.main(["stop", "broker"]) == 1
    assert "no rocketpy-broker" in refused(capsys)
    assert (directory / "broker-1.run").exists()


def test_damaged_run_files_are_passed_over(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    directory = place.home / "run" / "rocketpy"
    directory.mkdir(mode=0o700)
    (directory / "broker-1.run").write_text("{")
    assert sim.main(["stop", "broker"]) == 1
    assert "no rocketpy-broker" in refused(capsys)


def test_what_can_be_stopped_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        sim.main(["stop", "everything"])
    assert ended.value.code == 2
    assert "'namesrv'" in capsys.readouterr().err


# --- bugs ----------------------------------------------------------------------------------------------


def test_a_bug_is_told_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        raise ServiceCrashedError("a background service met a bug") from KeyError("the culprit")

    assert run_command("rocketpy-broker", None, body) == 1
    assert "the culprit" in capsys.readouterr().err


def test_too_few_descriptors_to_begin_with(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    assert run_command("rocketpy-broker", None, body) == 1
    assert "raise the limit (ulimit -n)" in refused(capsys)


def test_any_other_error_of_the_system_keeps_its_traceback() -> None:
    def body() -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        run_command("rocketpy-broker", None, body)


def test_ctrl_c_before_anything_serves(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        raise KeyboardInterrupt

    assert run_command("rocketpy-broker", None, body) == 130
    assert capsys.readouterr().err == ""


def test_a_demonstration_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        sim.main(["demo", "--count", "0"])
    assert ended.value.code == 2
    assert "'0' is not a number of 1 or more" in capsys.readouterr().err
