"""The wheel, as a user gets it: built, installed into a clean environment, and used from there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.installing import fetching, variables
from tests.readme import EXAMPLES, run_example

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [pytest.mark.wheel, pytest.mark.slow]


def run(*command: str | Path, cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, env=variables(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and what it requires, and nothing else: nobody installs into it."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", place, cwd=place.parent)
    fetching(place / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=place.parent)
    return place


def beside(installed: Path, place: Path) -> Path:
    """Make an environment that has all that another one has, for what is to be installed on top; its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=installed)
    (site,) = installed.glob("lib/python*/site-packages")
    (own,) = place.glob("lib/python*/site-packages")
    (own / "installed.pth").write_text(f"{site}\n", "utf-8")
    return place / "bin" / "python"


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in ("rocketpy", "rocketpy_broker_sim", "pyspark_rocketmq")
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".lark"} or path.name == "py.typed"
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/NOTICE") for name in names)


def test_the_wheel_works_in_a_clean_environment(installed: Path, tmp_path: Path) -> None:
    bin_dir = installed / "bin"
    said = run(bin_dir / "python", ROOT / "tests" / "wheel_smoke.py", cwd=tmp_path)
    assert "one message sent and stored" in said
    run(bin_dir / "python", "-c", "import rocketpy.spark; rocketpy.spark.archive('rocketpy.zip')", cwd=tmp_path)
    assert {"rocketpy/spark/sink.pyc", "rocketpy/LICENSE", "rocketpy/NOTICE"} <= set(
        zipfile.ZipFile(tmp_path / "rocketpy.zip").namelist()
    )
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for script in scripts:
        assert "usage" in run(bin_dir / script, "--help", cwd=tmp_path).lower(), script


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_programs_of_the_readme_run_with_the_wheel(number: int, installed: Path, tmp_path: Path) -> None:
    run_example(number, installed / "bin" / "python", tmp_path, variables())


def test_programs_of_the_readme_are_typed(installed: Path, tmp_path: Path) -> None:
    """As a user checks them: strictly, against the annotations of the wheel."""
    python = beside(installed, tmp_path / "venv")
    fetching(python, "-m", "pip", "install", "--quiet", "mypy", cwd=tmp_path)
    check = (python, "-m", "mypy", "--strict", "--no-incremental")
    programs = []
    for number, text in enumerate(EXAMPLES):
        programs.append(tmp_path / f"example_{number}.py")
        programs[-1].write_text(text, "utf-8")
    assert "Success: no issues found" in run(*check, *programs, cwd=tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import rocketpy.sync\n\nrocketpy.sync.Producer(42)\n", "utf-8")
    ran = subprocess.run([*check, wrong], cwd=tmp_path, env=variables(), capture_output=True, text=True)
    assert 'Argument 1 to "Producer" has incompatible type "int"' in ran.stdout, ran.stdout + ran.stderr


def test_the_pytest_plugin_of_the_wheel_works_beside_others_and_without_them(installed: Path, tmp_path: Path) -> None:
    python = beside(installed, tmp_path / "venv")
    smoke = tmp_path / "test_smoke.py"
    smoke.write_text((ROOT / "tests" / "wheel_plugin_smoke.py").read_text("utf-8"), "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n", "utf-8")
    pytest_smoke = (python, "-m", "pytest", "-rs", smoke)
    install = (python, "-m", "pip", "install", "--quiet")
    fetching(*install, "pytest", cwd=tmp_path)
    assert "3 passed" in run(*pytest_smoke, cwd=tmp_path)
    fetching(*install, "pytest-trio", "pytest-asyncio", "anyio", cwd=tmp_path)
    said = run(*pytest_smoke, "-o", "asyncio_default_fixture_loop_scope=function", cwd=tmp_path)
    assert "8 passed" in said
    assert "skipped" not in said
