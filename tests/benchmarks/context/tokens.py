"""The estimate of tokens against a real tokenizer, over Python files that are installed here."""

from __future__ import annotations

import statistics
import sysconfig
from pathlib import Path

from pipeline.context.tokens import estimate_tokens
from tests.benchmarks.table import Row, percentile
from tests.support.tokenizer import real_tokens

FILES = 600


async def measure() -> list[Row]:
    texts = [path.read_text(encoding="utf-8") for path in _sample()]
    pairs = [(estimate_tokens(text), len(real_tokens(text))) for text in texts]
    worst = min(pairs, key=lambda pair: pair[0] / pair[1])
    ratios = [guess / real for guess, real in pairs]
    middle = statistics.median(ratios)
    low = percentile(ratios, 0.01)
    baseline = "DeepSeek's tokenizer"
    return [
        Row(f"tokens of {len(pairs)} files, estimated", sum(g for g, _ in pairs), "tokens",
            baseline, sum(r for _, r in pairs)),
        Row("tokens of the file guessed lowest", worst[0], "tokens", baseline, worst[1]),
        Row("estimate of the median file", middle, "times", baseline, 1),
        Row("estimate, 1st percentile of files", low, "times", baseline, 1),
    ]  # fmt: skip


def _sample() -> list[Path]:
    folder = Path(sysconfig.get_path("purelib"))
    found = [path for path in sorted(folder.rglob("*.py")) if 500 < path.stat().st_size < 200_000]
    return [path for path in found[:: max(1, len(found) // FILES)] if _is_utf8(path)]


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True
