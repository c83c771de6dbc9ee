"""The files from which tests with a marker are collected."""

from __future__ import annotations

from pathlib import Path

from tools.marked import marked

FILES = {
    "tests/test_one.py": "@pytest.mark.alone('it measures')\ndef test_one(): ...\n",
    "tests/test_other.py": "# alone\n",
    "tests/near/test_two.py": "WHY = pytest.mark.alone('it measures')\n",
    "tests/all/conftest.py": "item.add_marker(pytest.mark.alone)\n",
    "tests/all/test_three.py": "@pytest.mark.alone('too')\n",
    "tests/helper.py": "pytest.mark.alone\n",
}


def test_files_that_name_a_marker_and_folders_whose_conftest_does(tmp_path: Path) -> None:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    assert marked(tmp_path, "alone") == ["tests/all", "tests/near/test_two.py", "tests/test_one.py"]
    assert marked(tmp_path, "spark") == []
    assert marked(tmp_path / "nowhere", "alone") == []
