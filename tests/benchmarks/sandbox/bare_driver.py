"""Runs inside the bare container: prepares copies, runs scripts on them, prints what it took."""

import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TREE = "/opt/tree"
COPIES = Path("/copies")
PYTHON = "/opt/env/bin/python"
BASE = {"PATH": "/opt/env/bin:/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "PYTHONHASHSEED": "0"}


def prepare(diffs: list[str]) -> dict[str, float]:
    COPIES.mkdir()
    begun = time.perf_counter()
    for number, diff in enumerate(diffs, start=1):
        copy = COPIES / str(number)
        subprocess.run(["cp", "-a", TREE, str(copy)], check=True)
        subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"], cwd=copy, input=diff.encode(), check=True
        )
    took = time.perf_counter() - begun
    used = subprocess.run(["du", "-sm", str(COPIES)], check=True, capture_output=True)
    return {"seconds": took, "mb": float(used.stdout.split()[0])}


def matrix(tests: list[str], copies: int, parallel: int) -> dict[str, float]:
    trees = [TREE, *(str(COPIES / str(n + 1)) for n in range(copies))]
    scripts: list[str] = []
    for number, test in enumerate(tests):
        script = f"/tmp/test_{number}.py"
        Path(script).write_text(test)
        scripts.append(script)

    def run(pair: tuple[str, str]) -> None:
        tree, script = pair
        env = {**BASE, "PYTHONPATH": tree, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([PYTHON, script], cwd=tree, env=env, check=True, capture_output=True)

    begun = time.perf_counter()
    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(run, [(tree, script) for tree in trees for script in scripts]))
    return {"seconds": time.perf_counter() - begun}


def start(rounds: int) -> dict[str, float]:
    took: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run(["/bin/true"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
        took.append(time.perf_counter() - begun)
    return {"seconds": statistics.median(took)}


def main() -> None:
    job: dict[str, Any] = json.loads(sys.argv[1])
    os.umask(0o022)
    if "prepare" in job:
        answer = prepare(job["prepare"])
    elif "start" in job:
        answer = start(job["start"])
    else:
        answer = matrix(**job)
    sys.stdout.write(json.dumps(answer))


main()
