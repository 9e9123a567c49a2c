"""The file with the App's keys: lines for a shell and for compose, readable only by its owner."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.errors import BotError

MODE: Final = 0o600
_APP_ID_LINE: Final = re.compile(
    r"^[ \t]*(?:export[ \t]+)?CAPUCHIN_GITHUB_APP_ID\s*=\s*\S", re.MULTILINE
)


class EnvFileError(BotError):
    """The keys cannot be saved there; `str(error)` is a sentence."""


def check_writable(file: Path) -> None:
    """Check that the file can receive an App's keys, before GitHub creates the App.

    Raises:
        EnvFileError: the file already names an App, is not a text file, or is not writable.
    """
    try:
        if file.exists() and _APP_ID_LINE.search(file.read_text(encoding="utf-8")):
            raise EnvFileError(
                f"{file} already names an App. Remove it there, or give another --env FILE."
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(_open_private(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise EnvFileError(f"Cannot write {file}: {reason}.") from None


def append_values(file: Path, values: Mapping[str, str]) -> None:
    """Append `NAME='value'` lines; line breaks become `\\n`, as `Settings` reads a key.

    Raises:
        EnvFileError: the file is not writable, or a value does not fit into such a line.
    """
    lines = ["", "# Written by `capuchin setup`. Anybody who can read this can act as the App."]
    for name, value in values.items():
        text = value.strip().replace("\n", "\\n")
        if "'" in text or not text.isprintable():
            raise EnvFileError(f"GitHub sent a value for {name} that cannot be written to a file.")
        lines.append(f"{name}='{text}'")
    try:
        with os.fdopen(_open_private(file), "a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError as error:
        raise EnvFileError(f"Cannot write {file}: {error.strerror}.") from None


def _open_private(file: Path) -> int:
    """Open for appending, readable only by its owner."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, MODE)
    try:
        os.fchmod(descriptor, MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
