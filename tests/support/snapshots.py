"""What people are shown, kept as files that a reviewer reads: `tests/snapshots/NAME.txt`."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "snapshots"


def assert_snapshot(name: str, text: str) -> None:
    """`text` is what the file holds. Delete the file and run the test again to make it anew."""
    file = FOLDER / f"{name}.txt"
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        raise AssertionError(f"{file.name} was made: read it, and run the test again")
    assert text == file.read_text(encoding="utf-8")
