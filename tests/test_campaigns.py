"""What finds more the longer it runs refuses a command line with which it would find nothing; nothing is run here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tests.chaos.__main__ as chaos
import tests.crash.__main__ as crash
import tests.kill.__main__ as kill

REFUSED = [
    (crash.main, "--points", "-5"),
    (crash.main, "--points", "0"),
    (crash.main, "--points", "many"),
    (crash.main, "--processes", "0"),
    (crash.main, "--replay", "nonsense"),
    (crash.main, "--replay", ""),
    (crash.main, "--replay", " "),
    (crash.main, "--replay", "T99:1:1"),
    (crash.main, "--replay", "T3:-1:1"),
    (crash.main, "--replay", "T3:1"),
    (kill.main, "--cycles", "0"),
    (kill.main, "--cycles", "-1"),
    (kill.main, "--set", "flushDiskType"),
    (chaos.main, "--seconds", "-1"),
    (chaos.main, "--seconds", "0"),
    (chaos.main, "--seconds", "inf"),
    (chaos.main, "--seconds", "nan"),
    (chaos.main, "--seconds", "long"),
]


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((crash, "run_jobs"), (crash, "run_point"), (kill, "run"), (chaos, "Campaign")):
        monkeypatch.delattr(module, name)


@pytest.mark.parametrize(("main", "option", "value"), REFUSED)
def test_a_run_that_would_find_nothing_is_refused(
    main: Callable[[list[str]], int], option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"{option}={value}"])
    assert ended.value.code == 2
    assert f"error: argument {option}: {value!r} " in capsys.readouterr().err


def test_what_a_report_prints_can_be_replayed() -> None:
    for line in ("T3:123:1", "T10:0:-7  rolling at 12"):
        assert crash.point(line) == line
