"""Which files of a diff do not matter, and what in it could steer or forge the tests."""

import re
from collections.abc import Iterator
from itertools import chain, islice

from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import LANGUAGES

_DOCUMENT = re.compile(
    r"\.(?:rst|md|txt|po|html?|lock|bak\w*|orig|rej|log|diff|patch|pyc)$"
    r"|(?:^|/)(?:CHANGES|CHANGELOG|ChangeLog|NEWS|AUTHORS|\.gitignore)[^/]*$"
    r"|(?:^|/)(?:docs?|testdata)/",
)
_CHANGELOG = re.compile(
    r"(?:^|/)(?:CHANGES?|CHANGELOGS?|HISTORY|NEWS|whats_?new|newsfragments)(?:\.d)?"
    r"(?:/|\.\w+$|$)",
    re.IGNORECASE,
)
_SCRATCH = re.compile(
    r"^(?:[^/]*/)?[^/]*(?:reproduc|repro_|repro\.|bug|issue|debug|verify|verification|demo|check_"
    r"|edge_case|run_tests?|example|temp|tmp|scratch|minimal)[^/]*\.\w+$"
)


_QUOTES = "'\"`"


def is_changelog(path: str) -> bool:
    """Whether a file at this path lists what changed, or is one entry of such a list."""
    return bool(_CHANGELOG.search(path))


def is_irrelevant(file: FileDiff) -> bool:
    """Whether a change to this file leaves the program's behaviour unchanged.

    Such files are tests, documents, notes, and new top-level scripts that only reproduced an issue.
    """
    path = file.path
    if is_test(path) or _DOCUMENT.search(path):
        return True
    return file.old is None and bool(_SCRATCH.match(path) or "/" not in path)


_TEST = re.compile(
    r"\s*(?:(?:async\s+)?def\s+(test\w*)|func\s+(Test\w+)|(?:it|test)\(\s*(['\"`].{1,80}?['\"`])"
    r"|(?:public\s+)?(?:void|fn|function)\s+(test\w*))",
)
"""The beginning of a test in the languages that are read."""


def find_removed_tests(diff: str) -> list[str]:
    """The names of the tests that `diff` removes without adding them again. Untrusted."""
    lines = [line for file in parse_diff(diff) for hunk in file.hunks for line in hunk.lines]
    matches = ((marker, _TEST.match(text)) for marker, text in lines)
    found = [(marker, match[match.lastindex or 0]) for marker, match in matches if match]
    kept = {name for marker, name in found if marker != "-"}
    return [name for marker, name in found if marker == "-" and name not in kept]


_ABOVE = re.compile(r"\s*(?:#[ :!\[]|#$|//|/\*|\*|--[ -]|@\w|\[\w[^\]]*\]$)")
"""A line that belongs to the definition below it: of a comment, a decorator, an attribute."""
_DEFINITION = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub"
    r"|pub\(\w+\)|unsafe|inline|virtual|override)\s{1,9}){0,5}"
    r"(?:(?:def|defp|class|func|fn|fun|function|struct|enum|trait|impl|interface|module|sub)\b"
    r"|(?!(?:return|else|new|throw|raise|await|yield|with|for|while|if|elif|assert)\b)"
    r"\w[\w:<>.*& ]{0,80}[ *&]\w{1,80}\()"
)


def find_parted(diff: str) -> list[str]:
    """The definitions that `diff` parts from the comment or decorator above them by putting another
    one between. Untrusted."""
    found: list[str] = []
    for hunk in (hunk for file in parse_diff(diff) for hunk in file.hunks):
        above, new = "", list[str]()
        for marker, text in hunk.lines:
            if marker == "+":
                new += [text] if text.strip() else []
                continue
            if marker == " " and new and _is_parted(above, new, text):
                found.append(text.strip()[:80])
            above, new = text if marker == " " else "", []
    return found


def _is_parted(above: str, new: list[str], definition: str) -> bool:
    indent = _indent(definition)
    return (
        bool(_DEFINITION.match(definition) and _ABOVE.match(above))
        and indent <= _indent(above) <= indent + 1  # as `*/` is
        and not _ABOVE.match(new[-1])
        and any(_indent(text) == indent and _DEFINITION.match(text) for text in new)
    )


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


_WRAPPER = re.compile(r"(?:^|/)(?:gradlew|mvnw)(?:\.\w+)?$|(?:^|/)(?:vendor/)?bin/[^/]+$")
"""Programs of a repository that start its tests."""


def find_steering(diff: str) -> frozenset[str]:
    """The paths of `diff` that say how tests are built and run."""
    paths = {path for file in parse_diff(diff) for path in (file.old, file.new) if path}
    return frozenset(
        path
        for path in paths
        if _WRAPPER.search(path)
        # Python's manifests hold much else: it looks at what changes in them.
        or any(
            re.search(one.facts.steers, path) or (one.facts.ways and one.is_manifest(path))
            for one in LANGUAGES
        )
    )


def find_forgery(diff: str) -> frozenset[str]:
    """Those sentences of `find_suspicious` that say how tests could pass that should not."""
    return frozenset(chain(_look_at_code(diff), _look_at_settings(diff)))


def _look_at_code(diff: str) -> Iterator[str]:
    for file in parse_diff(diff):
        for language in LANGUAGES:
            yield from language.find_suspicious(file)


def _look_at_settings(diff: str) -> Iterator[str]:
    return (f"changes `{path}`, which says how tests run." for path in sorted(find_steering(diff)))


def find_suspicious(diff: str) -> tuple[str, ...]:
    """At most a few sentences without a subject, such as "changes `conftest.py`."; paths in them
    are untrusted."""
    found = chain(
        _look_at_code(diff),
        (f"takes out the test `{name.strip(_QUOTES)}`." for name in find_removed_tests(diff)),
        (
            f"comes between `{code}` and the comment or decorator above it."
            for code in find_parted(diff)
        ),
        _look_at_settings(diff),
    )
    return tuple(islice(dict.fromkeys(found), 3))
