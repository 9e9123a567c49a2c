"""Requirement files; the releases of an index and their days."""

from __future__ import annotations

import contextlib
import datetime
import html
import json
import os
import re
import ssl
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DEFAULT_INDEX = "https://pypi.org/simple"
MAX_PAGE_BYTES = 64 * 1024 * 1024
SECONDS = 30
RELEASE = re.compile(r"(\d{1,18}(?:\.\d{1,18})*)(?:(a|b|rc|\.dev|\.post)(\d{1,18}))?")
PHASES = (".dev", "a", "b", "rc", "", ".post")


def normalise_name(name: str) -> str:
    """As PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


PUBLIC_INDEXES = (
    *("pypi.org", "pypi.python.org", "files.pythonhosted.org", "download.pytorch.org"),
    *("mirrors.aliyun.com", "pypi.tuna.tsinghua.edu.cn", "mirrors.tuna.tsinghua.edu.cn"),
    *("pypi.mirrors.ustc.edu.cn", "pypi.douban.com", "repo.huaweicloud.com"),
)
"""Hosts of indexes on which every name means the same as on the usual one."""


def is_public_index(url: str) -> bool:
    """Whether `url` is of an index on which names mean the same as on the usual one."""
    with contextlib.suppress(ValueError):
        return (urllib.parse.urlsplit(url).hostname or "") in PUBLIC_INDEXES
    return False


def read_files(name: str) -> list[dict[str, Any]]:
    """The files of a package, with `filename` and where known `upload-time`; empty for none."""
    environ = os.environ  # noqa: TID251 - the build container's own
    index = environ.get("UV_DEFAULT_INDEX") or environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
    url = index.rstrip("/") + "/" + normalise_name(name) + "/"
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310
    context = ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE") or None)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:  # noqa: S310
            data: bytes = answer.read(MAX_PAGE_BYTES)
    except (OSError, ValueError):
        return []
    try:
        found = json.loads(data).get("files", [])
        return [file for file in found if isinstance(file, dict)]
    except (ValueError, AttributeError, RecursionError):
        names = re.findall(r"<a\b[^>]*>\s*([^<]{1,300}?)\s*</a>", data.decode("utf-8", "replace"))
        return [{"filename": html.unescape(name)} for name in names]


def newest_release(name: str, until: str) -> str:
    """The newest release on the index by the day `until`, or of all for an empty one.

    A pre-release counts only where it came out after the newest final release: what an abandoned
    branch once announced says nothing about today's. Empty where the index has none, or does not
    say when they came out.
    """
    finals: list[tuple[tuple[tuple[int, ...], int, int], str, str]] = []
    others: list[tuple[tuple[tuple[int, ...], int, int], str, str]] = []
    for file in read_files(name):
        day = str(file.get("upload-time") or "")[:10]
        if until and not "" < day <= until:
            continue
        version = version_in(name, str(file.get("filename") or ""))
        match = RELEASE.fullmatch(version)
        if match:
            found = others if match[2] in PHASES[:4] else finals
            found.append((order_of(match), version, day))
    best = max(finals, default=None)
    if best:
        others = [one for one in others if one[2] and one[0] > best[0] and one[2] >= best[2]]
    newest = max(others, default=best)
    return newest[1] if newest else ""


def order_of(match: re.Match[str]) -> tuple[tuple[int, ...], int, int]:
    """The place of a version that `RELEASE` matches among others, as PEP 440 sorts them."""
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), PHASES.index(match[2] or ""), int(match[3] or 0)


def version_in(name: str, filename: str) -> str:
    """The version in the name of a distribution's file; empty for another package's file."""
    stem = re.sub(r"\.(tar\.(gz|bz2|xz)|zip|whl|egg)$", "", filename)
    head = re.match("[-_.]+".join(map(re.escape, re.split(r"[-_.]+", name))) + "-", stem, re.I)
    return stem[head.end() :].split("-")[0] if head else ""


def next_upload(name: str, after: datetime.date) -> datetime.date | None:
    """The day of the first file of `name` after a day; None without one."""
    days = sorted(
        day
        for file in read_files(name)
        for day in [str(file.get("upload-time") or "")[:10]]
        if day > after.isoformat()
    )
    return datetime.date.fromisoformat(days[0]) if days else None


MAX_DEPTH = 10
MAX_BYTES = 1024 * 1024
NESTED = re.compile(r"(?:-r|--requirement)[\s=]*(\S+)$")
EDITABLE = re.compile(r"(?:-e|--editable)[\s=]*(\S+)$")
INDEX = re.compile(r"(?:-i|--index-url)[\s=]+(\S+)$|--no-index$")
OWN = re.compile(r"(?:(?:-e|--editable)[\s=]*)?\./?\[([\w.,\s-]+)\]$", re.ASCII)


def name_of(requirement: str) -> str:
    """The normalised name in front of a requirement."""
    return normalise_name(re.split(r"[<>=!~;\[\s@(]", requirement.strip())[0])


def flatten(names: Sequence[str], root: Path, own: str = "", depth: int = 0) -> list[str]:
    """The requirements in files of the checkout, without options and without itself; of that, named
    `own`, only its extras. A file of another index has none: its names may mean others here."""
    found: list[str] = []
    for name in names:
        lines = list(read_lines(root / name))
        options = filter(None, map(INDEX.match, lines))
        if any(not is_public_index(option[1] or "") for option in options):
            continue
        for line in lines:
            nested = NESTED.match(line)
            if nested and depth < MAX_DEPTH:
                inner = os.path.normpath(Path(name).parent / nested[1])
                found += flatten([inner], root, own, depth + 1)
                continue
            if own and (extras := OWN.match(line)):
                found.append(f"{own}[{extras[1]}]")
                continue
            editable = EDITABLE.match(line)
            if editable and "://" in editable[1]:
                line = as_direct_reference(editable[1])
            if line and not line.startswith(("-", ".", "/")):
                found.append(line)
    return found


def as_direct_reference(address: str) -> str:
    """`git+https://…#egg=name` as `name @ git+https://…`; empty without a name."""
    match = re.match(r"([^#]+)#egg=([\w.-]+)", address)
    return f"{match[2]} @ {match[1]}" if match else ""


def read_lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as source:
            text = source.read(MAX_BYTES)
    except OSError:
        return
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        yield re.sub(r"\s+--hash=\S+", "", re.sub(r"(^|\s)#.*", "", line)).strip()


def without(requirements: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of other packages, and those of `names`."""
    dropped = [one for one in requirements if name_of(one) in set(names)]
    return [one for one in requirements if one not in dropped], dropped
