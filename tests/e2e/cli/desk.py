"""A folder with a repository, an issue and edits, for `capuchin select`."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from bot.cli import replay as cli_replay
from bot.cli import select as cli_select
from bot.settings import Settings
from pipeline.data.options import ONLY_FIXED
from sandbox.frozen import replace
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.data import local_git

SCRIPT = "import sys\nfrom shop.till import total\nsys.exit(0 if total(1, 2) == 3 else 2)\n"
TEST_FILE = "from shop.till import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n"
TILL = shop.FILES["shop/till.py"]
NOT_RIGHT = TILL.replace("a - b", "abs(a - b)")
RIGHT = TILL.replace("a - b", "a + b")
RUNS = ("control", "controls", "environment", "near", "regression", "reports", "votes")
"""Where `capuchin select` keeps what ran with each edit."""


class Desk:
    """A folder with a repository, an issue file and edits."""

    def __init__(self, folder: Path, url: str, environment: Path) -> None:
        """`environment` is what the first selection of this process found of the repository's
        environment, which is always the same; the others go on from a copy."""
        self.folder = folder
        self._environment = environment
        self.repo, self.issue, self.out = folder / "repo", folder / "issue.md", folder / "out"
        self.issue.write_text(f"{shop.TITLE}\n\n{shop.BODY}\n")
        local_git.repository(self.repo, {name: t.encode() for name, t in shop.FILES.items()})
        certificates = host_certificates()
        self.alone = Settings(build_ca_bundle=Path(certificates) if certificates else None)
        self.asking = replace(
            self.alone,
            solver_model="anthropic:recorded-claude-sonnet-4-6",
            anthropic_api_key=SecretStr("recorded"),
            anthropic_base_url=url,
            generators=ONLY_FIXED,
        )

    def branch(self, name: str, files: dict[str, str]) -> None:
        local_git.git(self.repo, "checkout", "--quiet", "-b", name, "main")
        local_git.committed(self.repo, {path: text.encode() for path, text in files.items()})
        local_git.git(self.repo, "checkout", "--quiet", "main")

    def file(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def diff(self, name: str, branch: str) -> str:
        return self.file(name, local_git.git(self.repo, "diff", "main", branch) + "\n")

    async def select(self, *more: str, settings: Settings | None = None) -> int:
        args = ["select", "--repo", str(self.repo), "--issue", str(self.issue), *more]
        asked = parsed(cli_select, args)
        found = (asked.out or self.folder / "none") / "run/environment"
        if asked.out and self._environment.exists() and not found.parent.exists():
            shutil.copytree(self._environment, found)
        code = await cli_select.run_command(asked, settings or self.alone)
        if found.exists() and not self._environment.exists():
            shutil.copytree(found, self._environment)
        return code

    def keep_runs(self, done: Path, out: Path) -> None:
        """Let a selection into `out` go on from what ran for one into `done`, and decide anew."""
        for kept in RUNS:
            if (done / "run" / kept).exists():
                shutil.copytree(done / "run" / kept, out / "run" / kept)

    async def replay(self, *more: str) -> int:
        args = parsed(cli_replay, ["replay", str(self.out / "run.tar.zst"), *more])
        return await cli_replay.run_command(args)

    def report(self) -> dict[str, object]:
        return json.loads((self.out / "report.json").read_text())


def parsed(command: object, words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    register = command.register  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] - a module
    register(parser.add_subparsers())
    return parser.parse_args(words)
