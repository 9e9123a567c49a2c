"""`capuchin fix` on a folder of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bot.cli import fix as cli_fix
from bot.recorded.server import RecordedServer
from bot.settings import Settings
from pipeline.options import ONLY_FIXED
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.data import local_git


class LocalFix:
    """A folder with a repository, an issue file, and a recorded model."""

    def __init__(self, folder: Path, llm: RecordedServer, url: str) -> None:
        self.llm = llm
        self.repo, self.issue, self.out = folder / "repo", folder / "issue.md", folder / "out"
        self.issue.write_text(f"{shop.TITLE}\n\n{shop.BODY}\n")
        self.settings = Settings(
            solver_model="anthropic:recorded-claude-sonnet-4-6",
            anthropic_api_key="recorded",  # pyright: ignore[reportArgumentType] - a secret by pydantic
            anthropic_base_url=url,
            generators=ONLY_FIXED,
            data_dir=folder / "data",
            build_ca_bundle=Path(host_certificates()) if host_certificates() else None,
        )

    def commit(self, files: dict[str, str]) -> str:
        return local_git.repository(self.repo, {name: t.encode() for name, t in files.items()})

    async def fix(self, *more: str, settings: Settings | None = None) -> int:
        args = ["fix", "--repo", str(self.repo), "--issue", str(self.issue), "--out", str(self.out)]
        return await cli_fix.run_command(parse_arguments([*args, *more]), settings or self.settings)


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cli_fix.register(parser.add_subparsers())
    return parser.parse_args(words)
