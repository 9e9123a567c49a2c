"""The file that keeps the App's keys: lines for a shell and for compose, read by its owner only."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.errors import BotError

MODE: Final = 0o600
_APP_ID_LINE: Final = re.compile(r"^\s*(?:export\s+)?CAPUCHIN_GITHUB_APP_ID\s*=\s*\S", re.MULTILINE)


class EnvFileError(BotError):
    """The keys cannot be kept there; `str(error)` is a sentence."""


def check_writable(file: Path) -> None:
    """Before anything is created at GitHub: can the file take an App?

    Raises:
        NotKept: it holds one already, is no file, or may not be written.
    """
    try:
        if file.exists() and _APP_ID_LINE.search(file.read_text(encoding="utf-8")):
            raise EnvFileError(f"{file} names an App already. Remove it there, or give --env FILE.")
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(_open_private(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise EnvFileError(f"{file} cannot be written: {reason}.") from None


def append_values(file: Path, values: Mapping[str, str]) -> None:
    """Append `NAME='value'` lines; line breaks become `\\n`, as `Settings` reads a key.

    Raises:
        NotKept: it cannot be written, or a value cannot stand in such a line.
    """
    lines = ["", "# Made by `capuchin setup`. Whoever reads this can act as the App."]
    for name, value in values.items():
        text = value.strip().replace("\n", "\\n")
        if "'" in text or not text.isprintable():
            raise EnvFileError(f"GitHub answered with a value for {name} that no file can hold.")
        lines.append(f"{name}='{text}'")
    try:
        with os.fdopen(_open_private(file), "a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError as error:
        raise EnvFileError(f"{file} cannot be written: {error.strerror}.") from None


def _open_private(file: Path) -> int:
    """For appending; nobody but its owner may read it from now on."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, MODE)
    try:
        os.fchmod(descriptor, MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
