"""How Sphinx builds these pages: MyST sources, the furo theme, every example run by doctest."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))

from rocketpy import __version__  # the line above makes the checkout importable

project = "rocketpy"
author = "The rocketpy contributors"
copyright = f"2026, {author}"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "request_codes",
    "settings_tables",
]
exclude_patterns = ["_build", "newsfragments"]
html_theme = "furo"
html_title = f"rocketpy {release}"

nitpicky = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
doctest_test_doctest_blocks = "default"
