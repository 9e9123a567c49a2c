"""Which files of an edit are beside the point: tests, documents, scripts left lying about."""

from __future__ import annotations

import re

from pipeline.edits.unified_diff import FileDiff

_TEST = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec|specs|testdata|e2e)/"
    r"|(?:^|/)(?:tests?|conftest)\.py$"
    r"|(?:^|/)test_[^/]*$|[._-](?:tests?|spec)\.\w+$|(?:^|/)\w+Tests?\.(?:java|cs|kt|php)$",
)
_DOCUMENT = re.compile(
    r"\.(?:rst|md|txt|po|html?|lock|bak\w*|orig|rej|log|diff|patch|pyc)$"
    r"|(?:^|/)(?:CHANGES|CHANGELOG|ChangeLog|NEWS|AUTHORS|\.gitignore)[^/]*$|(?:^|/)docs?/",
)
_SCRATCH = re.compile(
    r"^(?:[^/]*/)?[^/]*(?:reproduc|repro_|repro\.|bug|issue|debug|verify|verification|demo|check_"
    r"|edge_case|run_tests?|example|temp|tmp|scratch|minimal)[^/]*\.\w+$"
)


def is_test(path: str) -> bool:
    """Whether a file of this path holds tests, by the habits of common languages."""
    return bool(_TEST.search(path))


def is_irrelevant(file: FileDiff) -> bool:
    """Whether a change of this file does not change what the program does.

    Tests, documents and notes; and new scripts at the top that only reproduced an issue.
    """
    path = file.path
    if _TEST.search(path) or _DOCUMENT.search(path):
        return True
    return file.old is None and bool(_SCRATCH.match(path) or "/" not in path)
