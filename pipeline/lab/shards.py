"""Work on many instances that several machines share; its results, which are files."""

import hashlib
import re
import shutil
from argparse import ArgumentTypeError
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.lab.dataset import BadData
from pipeline.store import DirStore, ScopedStore, Store

RESULTS: Final = "results"
"""In a folder of results: a folder for each instance that is done."""
KINDS: Final = ("runs", RESULTS)
"""Folders of folders by instance. The results come last: they say that the rest is whole."""


@dataclass(frozen=True)
class Shard:
    """The share of one machine."""

    number: int = 1
    """From 1."""
    of: int = 1

    def holds(self, name: str) -> bool:
        """Whether the instance `name` is in it; it stays there whatever is added."""
        whole = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
        return whole % self.of == self.number - 1

    @property
    def is_part(self) -> bool:
        return self.of > 1

    def place(self, out: Path) -> Path:
        """Where its reports go: into `out` itself, or a folder for each shard."""
        return out / "shards" / f"{self.number}-of-{self.of}" if self.is_part else out


def parse_shard(text: str) -> Shard:
    """`K/N`. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.A)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ArgumentTypeError(f"{text!r} is not K/N, with K from 1 to N")
    return Shard(int(found[1]), int(found[2]))


def open_results(out: Path, name: str) -> Store:
    """The store of the results of one instance."""
    return ScopedStore(DirStore(out / RESULTS), name)


def join_results(out: Path, shards: Iterable[Path]) -> int:
    """Copy into `out` what is done in the folders `shards` and not in `out`; return how much.

    An instance is done once, whatever number of shards did it.

    Raises:
        BadData: a folder of `shards` holds no results.
        OSError: call again to continue.
    """
    joined = 0
    for shard in shards:
        if not (shard / RESULTS).is_dir():
            raise BadData(f"{shard} holds no results of a shard.")
        for done in sorted((shard / RESULTS).iterdir()):
            if (out / RESULTS / done.name).exists():
                continue
            for kind in KINDS:
                if (shard / kind / done.name).is_dir():
                    _copy_folder(shard / kind / done.name, out / kind / done.name)
            joined += 1
    return joined


def _copy_folder(source: Path, target: Path) -> None:
    scratch = target.with_name(f".{target.name}.tmp")
    for old in (scratch, target):
        if old.exists():
            shutil.rmtree(old)
    shutil.copytree(source, scratch)
    scratch.rename(target)
