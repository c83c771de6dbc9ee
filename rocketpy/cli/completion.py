"""rocketpy completion: the line with which a shell completes commands and options."""

from __future__ import annotations

import click

from rocketpy.cli.command import Command

__all__ = ["completion"]

_LINES = {
    "bash": 'eval "$(_ROCKETPY_COMPLETE=bash_source rocketpy)"',
    "zsh": 'eval "$(_ROCKETPY_COMPLETE=zsh_source rocketpy)"',
    "fish": "_ROCKETPY_COMPLETE=fish_source rocketpy | source",
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_LINES)))
def completion(shell: str) -> None:
    """Print the line that enables shell completion.

    Add it to ~/.bashrc, ~/.zshrc or ~/.config/fish/completions/rocketpy.fish.
    """
    click.echo(_LINES[shell])
