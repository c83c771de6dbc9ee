"""What several workers share is made by one of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.once import WORKER, made_once


class Factory(pytest.TempPathFactory):
    """The temporary folders of one worker."""

    def __init__(self, base: Path) -> None:
        self._base = base
        base.mkdir(parents=True)

    def getbasetemp(self) -> Path:
        return self._base

    def mktemp(self, basename: str, numbered: bool = True) -> Path:
        del numbered
        made = self._base / f"{basename}{len(list(self._base.iterdir()))}"
        made.mkdir()
        return made


def test_two_workers_share_what_one_has_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER, "gw0")
    factories = [Factory(tmp_path / f"gw{number}") for number in range(2)]
    found: list[Path] = []
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "made").write_text(str(len(made)), "utf-8")

    def ask(factory: Factory) -> None:
        found.append(made_once(factory, "thing", make))

    threads = [threading.Thread(target=ask, args=(factory,)) for factory in factories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "thing"] * 2
    assert len(made) == 1
    assert (found[0] / "made").read_text("utf-8") == "1"


def test_one_process_by_itself_keeps_it_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKER, raising=False)
    assert made_once(Factory(tmp_path / "own"), "thing", lambda folder: None) == tmp_path / "own" / "thing"


def test_what_could_not_be_made_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER, "gw0")
    factory = Factory(tmp_path / "gw0")

    def break_down(folder: Path) -> None:
        (folder / "half").write_text("", "utf-8")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made_once(factory, "thing", break_down)
    assert not list(made_once(factory, "thing", lambda folder: None).iterdir())
