"""The wheel, as a user gets it: built, installed into a clean environment, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [pytest.mark.wheel, pytest.mark.slow]


def run(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it, so that both are whole."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    assert list(out.glob("*.tar.gz"))
    (wheel,) = out.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in ("rocketpy", "rocketpy_broker_sim")
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".lark"} or path.name == "py.typed"
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/NOTICE") for name in names)


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin_dir = tmp_path / "venv" / "bin"
    run(bin_dir / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    said = run(bin_dir / "python", ROOT / "tests" / "wheel_smoke.py", cwd=tmp_path)
    assert "one message sent and stored" in said
    run(bin_dir / "python", "-c", "import rocketpy.spark; rocketpy.spark.archive('rocketpy.zip')", cwd=tmp_path)
    assert {"rocketpy/spark/sink.pyc", "rocketpy/LICENSE", "rocketpy/NOTICE"} <= set(
        zipfile.ZipFile(tmp_path / "rocketpy.zip").namelist()
    )
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for script in scripts:
        assert "usage" in run(bin_dir / script, "--help", cwd=tmp_path).lower(), script


def test_the_pytest_plugin_of_the_wheel_works_beside_others_and_without_them(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    smoke = tmp_path / "test_smoke.py"
    smoke.write_text((ROOT / "tests" / "wheel_plugin_smoke.py").read_text("utf-8"), "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n", "utf-8")
    pytest_smoke = (python, "-m", "pytest", "-rs", smoke)
    run(python, "-m", "pip", "install", "--quiet", wheel, "pytest", cwd=tmp_path)
    assert "3 passed" in run(*pytest_smoke, cwd=tmp_path)
    run(python, "-m", "pip", "install", "--quiet", "pytest-trio", "pytest-asyncio", "anyio", cwd=tmp_path)
    said = run(*pytest_smoke, "-o", "asyncio_default_fixture_loop_scope=function", cwd=tmp_path)
    assert "8 passed" in said
    assert "skipped" not in said
