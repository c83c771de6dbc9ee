"""The older line of PySpark is installed beside the environment, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import second_spark


def test_the_second_spark_is_installed_once_and_again_when_another_is_asked_for(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def pip(*arguments: str) -> None:
        asked.append(arguments)
        Path(arguments[3]).mkdir()

    place = tmp_path / "pyspark-3.5"
    for requirement in ("pyspark~=3.5.6", "pyspark~=3.5.6", "pyspark~=3.5.7"):
        second_spark.install(place, [requirement], pip)
        assert place.is_dir()
    assert [arguments[-1] for arguments in asked] == ["pyspark~=3.5.6", "pyspark~=3.5.7"]
    assert asked[0][:3] == ("install", "--no-deps", "--target")


def test_a_second_spark_half_installed_is_not_taken_for_done(tmp_path: Path) -> None:
    def pip(*arguments: str) -> None:
        Path(arguments[3]).mkdir()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        second_spark.install(tmp_path / "spark", ["pyspark"], pip)
    assert not (tmp_path / "spark").exists()
