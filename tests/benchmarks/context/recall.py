"""How often the words of an issue alone find the file to edit: bugs of real releases from PyPI."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bot.cli.lab.evaluate_recall import measure_recall
from bot.settings import Settings
from pipeline.codebase.git import git
from tests.benchmarks.table import Row

BUGS = Path(__file__).with_name("bugs.yml")
CACHE = Path("build/recall")
SHOWN = (4_000, 8_000, 16_000, 32_000)
"""Budgets in tokens; the packages are small beside that of a run."""
OWNER = "pypi"


async def measure() -> list[Row]:
    """By `capuchin evaluate --trees`, on bare repositories made of the releases."""
    bugs: list[dict[str, Any]] = yaml.safe_load(BUGS.read_text())
    releases = sorted({bug["release"] for bug in bugs})
    with tempfile.TemporaryDirectory() as name:
        trees = Path(name) / "trees"
        commits = {release: await _commit(trees, release) for release in releases}
        instances = Path(name) / "bugs.jsonl"
        instances.write_text("".join(_row(n, bug, commits) for n, bug in enumerate(bugs)))
        found = await measure_recall(instances, trees, None, Settings())
    assert not found.missing, found.missing
    way = found.ways["words"]
    count = f"{found.instances} bugs"
    rows = [
        Row(f"recall at {budget:,} tokens, {count}", way.recall[budget], "%", "ideal", 100)
        for budget in SHOWN
    ]
    whole = way.compression * way.tokens[max(way.tokens)]
    shown = way.tokens[SHOWN[1]]
    return [*rows, Row(f"source for {SHOWN[1]:,} tokens shown", whole, "tokens", "shown", shown)]


def _row(number: int, bug: Mapping[str, Any], commits: Mapping[str, str]) -> str:
    name = bug["release"].partition("==")[0]
    row = {
        "instance_id": f"{number}-{bug['release']}",
        "repo": f"{OWNER}/{name}",
        "base_commit": commits[bug["release"]],
        "problem_statement": bug["issue"],
        "patch": "".join(f"--- a/{path}\n+++ b/{path}\n" for path in bug["files"]),
    }
    return json.dumps(row) + "\n"


async def _commit(trees: Path, release: str) -> str:
    """A commit with the release's files, in a bare repository of its package."""
    git_dir = trees / f"{OWNER}__{release.partition('==')[0]}.git"
    if not git_dir.exists():
        await git(None, "init", "-q", "--bare", "-b", "main", str(git_dir))
    folder = await _unpack(release)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    stream = [b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\n"]
    stream += [b"data 1\nx\n", b"deleteall\n"]
    for path in files:
        name, data = path.relative_to(folder).as_posix().encode(), path.read_bytes()
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(data), data))
    await git(git_dir, "fast-import", "--quiet", "--force", input=b"".join(stream))
    return (await git(git_dir, "rev-parse", "main")).decode().strip()


async def _unpack(release: str) -> Path:
    """Its wheel from PyPI, unpacked; kept in `build/`."""
    folder = CACHE / release
    if not folder.exists():
        half = folder.with_name(f".{folder.name}")
        await asyncio.to_thread(shutil.rmtree, half, ignore_errors=True)
        uv = shutil.which("uv") or "build/uv/bin/uv"
        argv = ["pip", "install", "--quiet", "--no-deps", "--target", str(half), release]
        process = await asyncio.create_subprocess_exec(uv, *argv)
        assert await process.wait() == 0, f"PyPI gave no {release}"
        half.rename(folder)
    return folder
