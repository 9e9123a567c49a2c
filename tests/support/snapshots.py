"""What people are shown, kept as files that a reviewer reads: `tests/snapshots/NAME.txt`."""

import difflib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "snapshots"


def assert_snapshot(name: str, text: str) -> None:
    """`text` is what the file holds. Delete the file and run the test again to make it anew."""
    file = FOLDER / f"{name}.txt"
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        raise AssertionError(f"{file.name} was made: read it, and run the test again")
    kept = file.read_text(encoding="utf-8")
    if text != kept:
        old, new = kept.splitlines(keepends=True), text.splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, file.name, "what is shown now")
        raise AssertionError(
            f"{''.join(lines)}\nRead it, delete tests/snapshots/{file.name}, run the test again."
        )
