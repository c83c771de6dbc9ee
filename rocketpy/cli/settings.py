"""The settings of the client, from options, the environment and a file. Secrets never come from the command line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from rocketpy.errors import ConfigError

__all__ = ["DEFAULT_FILE", "client_settings"]

DEFAULT_FILE: Final = "~/.config/rocketpy.toml"
"""The file that is read if it exists and no other is given."""

_FROM_ENVIRONMENT: Final = {
    "access_key": "ROCKETPY_ACCESS_KEY",
    "secret_key": "ROCKETPY_SECRET_KEY",
    "security_token": "ROCKETPY_SECURITY_TOKEN",
}
"""Settings without an option, because `ps` shows the command line to every user of the machine."""


def client_settings(*, namesrv: str | None, timeout: float | None, file: str | None) -> dict[str, Any]:
    """The settings of `ClientConfig` that were given. Options win over the environment, and that over the file.

    Raises:
        ConfigError: The file cannot be read, or there is no name server.
    """
    found = _of_file(file)
    found |= {name: os.environ[key] for name, key in _FROM_ENVIRONMENT.items() if os.environ.get(key)}
    if os.environ.get("NAMESRV_ADDR"):
        found["namesrv"] = os.environ["NAMESRV_ADDR"]
    if namesrv is not None:
        found["namesrv"] = namesrv
    if timeout is not None:
        found["request_timeout"] = timeout
    if not found.get("namesrv"):
        raise ConfigError('no name server is known: pass --namesrv "host:9876", or set NAMESRV_ADDR')
    return found


def _of_file(file: str | None) -> dict[str, Any]:
    path = Path(file if file is not None else DEFAULT_FILE).expanduser()
    if file is None and not path.is_file():
        return {}
    import tomllib

    try:
        with path.open("rb") as opened:
            found = tomllib.load(opened)
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as exc:
        raise ConfigError(f"the settings in {path} cannot be read: {exc.strerror or exc}") from exc
    except ValueError as exc:  # not TOML, or not UTF-8
        raise ConfigError(f"the settings in {path} are not valid TOML: {exc}") from exc
    for warning in _warnings(path, mode, found):
        click.echo(f"rocketpy: warning: {warning}", err=True)
    return found


def _warnings(path: Path, mode: int, found: dict[str, Any]) -> Iterator[str]:
    if "secret_key" in found and os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield f'other users can read the secret key in {path}; run "chmod 600 {path}"'
