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
    "command_help",
    "comparison_table",
    "metrics_tables",
    "request_codes",
    "settings_tables",
    "short_names",
    "surface_docs",
    "table_breaks",
]
exclude_patterns = ["_build", "newsfragments"]
html_theme = "furo"
html_title = f"rocketpy {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]

nitpicky = True
nitpick_ignore_regex = [
    # Other people's, whose pages are not asked when these are built.
    ("py:.*", r"(trio|attrs|asyncio|concurrent|collections|contextlib|datetime|os|pathlib|types|typing)\..*"),
    ("py:.*", r"prometheus_client\..*"),
    ("py:class", r"Any|Awaitable|Callable|CancelScope|Future|Iterable|Path|Self|Sequence|TracebackType|TypeVar|T"),
    ("py:class", r"datetime|timedelta"),
    ("py:class", r"MeterProvider|RDD|Span|SparkContext|SparkSession|TextMapPropagator|TracerProvider"),
    # Ours that no user has to name: what embedding code gets from, or hands to, functions that are documented.
    (
        "py:class",
        r"Broker|HasStatistics|Hear|NameServer|Network|Outgoing|Servers|Storage|ServerLimits|RequestHook|BrokerConfig|NamesrvConfig",
    ),
    (
        "py:class",
        r"Bound|Checker|Column|Executor|OnFailure|ReceivedProperties|RowMapping|SystemProperties|Tally|UserProperties|Wanted",
    ),  # said in words where they are asked for
    ("py:.*", r"rocketpy(_broker_sim)?\.[a-z_]+\..*"),
]
default_role = "code"  # one backtick in a docstring is a name in code, not a link
autodoc_member_order = "bysource"
autodoc_typehints = "description"
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
doctest_test_doctest_blocks = "default"
doctest_global_cleanup = """
import logging
logging.getLogger().handlers.clear()
for name in [None, *(each for each in logging.root.manager.loggerDict if each.startswith("rocketpy"))]:
    logging.getLogger(name).setLevel(logging.WARNING if name is None else logging.NOTSET)
"""  # a page that configures the log leaves the next one as it was
