"""Going through a repository of ten thousand files: memory, and what a second issue costs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.context.retrieval.retrieve import build_reading_list
from pipeline.data.options import Options
from pipeline.data.types import Issue
from tests.benchmarks.table import Row

FILES = 10_000
LIMIT_MB = 300
_ISSUE = Issue(repository="a/b", title="method_17 of Service_4242 loses its argument", body="")


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        git_dir = Path(name) / "large.git"
        await _create_repository(git_dir)
        # Apart, so that nothing but the reading counts.
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.benchmarks.context.reading", str(git_dir),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await child.communicate()
        assert child.returncode == 0
    first, second, peak = (float(word) for word in output.split())
    return [
        Row(f"memory to read {FILES} files", peak, "MB", "the limit", LIMIT_MB),
        Row("second issue on the commit", second * 1000, "ms", "the first issue", first * 1000),
    ]


async def _create_repository(git_dir: Path) -> None:
    await git(None, "init", "-q", "--bare", "-b", "main", str(git_dir))
    stream: list[bytes] = []
    for n in range(FILES):
        text = _text(n)
        stream.append(b"blob\nmark :%d\ndata %d\n%s\n" % (n + 1, len(text), text))
    stream.append(b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\n")
    stream.append(b"data 1\nx\n")
    stream += [b"M 100644 :%d p%d/service_%d.py\n" % (n + 1, n // 100, n) for n in range(FILES)]
    await git(git_dir, "fast-import", "--quiet", input=b"".join(stream))


def _text(n: int) -> bytes:
    methods = (
        f"    def method_{m}(self, argument):\n        return self.held_{n} + argument * {m}\n\n"
        for m in range(80)
    )
    return f"class Service_{n}:\n{''.join(methods)}".encode()


async def _issue(git_dir: Path) -> float:
    """Seconds to choose what is read for an issue and to hand out every text once."""
    began = time.perf_counter()
    options = Options(prefilter="always", prefilter_keep=100)
    read = await build_reading_list(await Codebase.open(git_dir, "main"), _ISSUE, options)
    assert read.files[0].path.endswith("service_4242.py")
    took = time.perf_counter() - began
    count = 0
    async for file in read.sources.stream():
        count += len(file.text) > 0
    assert count == FILES
    return took


def _peak_mb() -> float:
    # Linux's own high-water mark: getrusage's would be the parent's before the exec.
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def _main(git_dir: Path) -> None:
    first, second = await _issue(git_dir), await _issue(git_dir)
    sys.stdout.write(f"{first} {second} {_peak_mb()}\n")


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
