"""The name and the version of a Python package, from its files, without running any of them."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from packaging.version import Version

from pipeline.languages.manifests import parse_ini, parse_toml, table


def project_of(texts: Mapping[str, str]) -> dict[str, Any]:
    return parse_toml(texts.get("pyproject.toml", ""))


def distribution_name(texts: Mapping[str, str]) -> str | None:
    """The package's name, if a file states it without being run."""
    project = project_of(texts)
    stated = table(project, "project").get("name") or table(project, "tool", "poetry").get("name")
    if isinstance(stated, str):
        return stated
    for name, pattern in (("PKG-INFO", r"^Name:\s*(\S+)"), ("setup.cfg", r"^name\s*=\s*(\S+)")):
        match = re.search(pattern, texts.get(name, ""), re.MULTILINE)
        if match:
            return match[1]
    return None


def guess_name(texts: Mapping[str, str]) -> str:
    """The package's name, also where only setup.py states it; empty without one."""
    match = re.search(r"""(?i)\bname\s*=\s*["']([\w.-]+)["']""", texts.get("setup.py", ""))
    return distribution_name(texts) or (match[1] if match else "")


def is_package(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the tree can be installed as a package."""
    if "setup.py" in names or {"project", "build-system"} & set(project):
        return True
    return "poetry" in table(project, "tool")


DESCRIBED: Final = re.compile(
    r"(?:.*?[-_/]|)(?:v|rel-?|release-?|version-?)?(\d{1,18}(?:[._]\d{1,18})*)"
    r"((?:[-._]?(?:a|b|rc|dev|post|alpha|beta)[-._]?\d*)?)-(\d{1,9})-g[0-9a-f]+"
)
"""The output of `git describe --tags --long`: a tag, how many commits ago it was, and the
commit."""
ASSIGNED: Final = re.compile(
    r"""^(?:__version__|version|VERSION)\s*(?::\s*\w+)?=\s*["']([^"'\n]+)["']""", re.MULTILINE
)
TUPLE: Final = re.compile(r"^(?:VERSION|version_info|__version_info__)\s*=\s*(\([^)\n]*\))", re.M)
HEADING: Final = re.compile(
    r"^(?:#+\s*|=+\s*)?(?:[A-Za-z][\w.-]*\s+)?(?:[Vv]ersion\s+|[Rr]elease\s+)?\[?v?"
    r"(\d+(?:\.\d+){1,3}(?:(?:\.?dev|a|b|rc)\d*)?)\]?(?=$|[\s(:,/])",
    re.MULTILINE,
)
VERSION_FILES: Final = re.compile(
    r"VERSION(\.txt)?|version\.txt|(?:(?:src|lib)/)?[A-Za-z_]\w*/(__init__|_?version|__version__|__about__|__pkginfo__)\.py"
)
CHANGELOGS: Final = re.compile(
    r"(?:docs?/(?:source/|src/|en/)?)?"
    r"(?:CHANGES|CHANGELOG|HISTORY|NEWS|RELEASES?|changes|changelog|history|news|releases?"
    r"|(?:[Ww]hats|RELEASE|[Rr]elease)[-_]?(?:new|NOTES|notes))(?:\.(?:md|rst|txt))?"
)
MAX_TEXT: Final = 64 * 1024


def find_version(
    name: str | None, texts: Mapping[str, str], described: str = ""
) -> tuple[str, str]:
    """Find the version and its source; both are empty if neither files nor tags state one.

    `described` is the output of `git describe --tags --long`. The index knows releases too, but
    only the installer can ask it.
    """
    for version, source in candidates(name, texts, described):
        try:
            return str(Version(version)), source
        except ValueError:  # `InvalidVersion`, or more digits than Python converts
            continue
    return "", ""


def candidates(
    name: str | None, texts: Mapping[str, str], described: str
) -> Iterator[tuple[str, str]]:
    metadata = re.search(r"^Version:\s*(\S+)\s*$", texts.get("PKG-INFO", ""), re.MULTILINE)
    stated = table(project_of(texts), "project").get("version")
    configured = parse_ini(texts.get("setup.cfg", "")).get("metadata", "version", fallback="")
    yield from (
        (metadata[1] if metadata else "", "PKG-INFO"),
        (next_version(described), "git's tags"),
        (stated if isinstance(stated, str) else "", "pyproject.toml"),
        (configured if ":" not in configured else "", "setup.cfg"),
    )
    own = re.sub(r"[-.]", "_", name or "").lower()
    for path in sorted(texts, key=lambda path: (own not in path.lower().split("/"), path)):
        if VERSION_FILES.fullmatch(path):
            yield version_in(path, texts[path][:MAX_TEXT]), path
    for path in sorted(texts, key=lambda path: (path.count("/"), path)):
        heading = CHANGELOGS.fullmatch(path) and HEADING.search(texts[path][:MAX_TEXT])
        yield heading[1] if heading else "", path


def next_version(described: str) -> str:
    """The version after `git describe`: the tag's own, or a development version of the next one.

    The guess is setuptools_scm's: the last number of the tag plus one.
    """
    match = DESCRIBED.fullmatch(described)
    if not match:
        return ""
    base, tail, commits = match[1].replace("_", "."), match[2], int(match[3])
    if not commits:
        return base + tail
    if tail:
        return base + tail if "dev" in tail else f"{base}{tail}.post1.dev{commits}"
    *head, last = base.split(".")
    return ".".join([*head, str(int(last) + 1)]) + f".dev{commits}"


def version_in(path: str, text: str) -> str:
    """The version that a file assigns or consists of; empty without one."""
    if not path.endswith(".py"):
        return text.strip() if len(text) < 64 else ""
    match = ASSIGNED.search(text)
    if match:
        return match[1]
    numbers = TUPLE.search(text)
    try:
        value = ast.literal_eval(numbers[1]) if numbers else ()
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    whole = [part for part in value if isinstance(part, int)][:3]
    return ".".join(map(str, whole)) if len(whole) > 1 else ""


def may_state_version(path: str) -> bool:
    """Whether a file at this path may state the package's version."""
    return path == "PKG-INFO" or bool(VERSION_FILES.fullmatch(path) or CHANGELOGS.fullmatch(path))
