"""One target in this process: `python -m tests.fuzz.one NAME SECONDS SEED FOLDER`, for `make fuzz`.

`--replay NAME FILE…` parses these inputs once each, without a fuzzer.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.fuzz.mutate import mutate
from tests.fuzz.target import CORPUS, MOST_GROWTH, Growth, Stall, check, peak_kib, run_once

INSTRUMENTED: Final[Mapping[str, Sequence[str]]] = {
    "settings": ("bot.repo_config", "ruamel"),
    "webhook": ("bot.events", "bot.triggers", "bot.github.models"),
    "comment": ("bot.triggers", "bot.markdown", "prompts"),
    "issue": ("bot.visible_text", "bot.admission", "bot.comments.pull_template"),
    "diff": ("pipeline.edits", "pipeline.selection.normalise"),
    "edit_blocks": ("pipeline.edits",),
    "reply": ("pipeline.replies", "pipeline.context.relevance", "pipeline.environment"),
    "printed": ("pipeline.regression", "bot.comments.evidence", "pipeline.environment"),
    "records": ("pipeline.regression",),
    "junit": ("pipeline.regression",),
    "bundle": ("pipeline.bundle", "tarfile"),
    "dockerfile": ("sandbox.environment",),
    "manifests": ("sandbox.environment", "pipeline.regression.routines", "tomllib"),
    "locks": ("sandbox.environment", "tomllib"),
    "ci": ("sandbox.environment", "yaml"),
    "health": ("pipeline.environment",),
    "search": ("pipeline.search", "pipeline.context.outline", "pipeline.generation.exploring"),
}
"""By target: the modules whose branches the fuzzer follows; following all takes long to start."""
MOST_SLOW: Final = 5


def replay(name: str, paths: list[str]) -> None:
    from tests.fuzz.targets import TARGETS

    for path in paths:
        try:
            check(TARGETS[name], Path(path).read_bytes())
        except (Stall, Growth) as error:
            sys.exit(f"{path}: {type(error).__name__}: {error}")


def fuzz(name: str, seconds: str, seed: str, folder: Path) -> None:
    import atheris  # pyright: ignore[reportMissingImports]

    fuzzer: Any = atheris
    with fuzzer.instrument_imports(include=[*INSTRUMENTED[name]], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    for path in (CORPUS / name).iterdir():  # so that caches and imports do not count as growth
        run_once(target, path.read_bytes())
    first, slow = peak_kib(), 0

    def test_one_input(data: bytes) -> None:
        nonlocal slow
        taken = run_once(target, data)
        if taken > target.seconds and slow < MOST_SLOW:
            slow += 1
            folder.joinpath(f"slow-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
        if peak_kib() - first > MOST_GROWTH:
            raise Growth(f"{(peak_kib() - first) // 1024} MiB")

    def custom_mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutate(data, most, seed, fuzzer.Mutate)

    fresh = folder / "corpus"
    fresh.mkdir(exist_ok=True)
    argv = [
        sys.argv[0], str(fresh), str(CORPUS / name), f"-max_total_time={seconds}",
        f"-seed={seed}", f"-max_len={target.largest}", "-len_control=0", "-timeout=60",
        "-rss_limit_mb=4096", f"-artifact_prefix={folder}/", "-print_final_stats=0",
    ]  # fmt: skip
    fuzzer.Setup(argv, test_one_input, custom_mutator=custom_mutator)
    fuzzer.Fuzz()


if __name__ == "__main__":
    if sys.argv[1] == "--replay":
        replay(sys.argv[2], sys.argv[3:])
    else:
        fuzz(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
