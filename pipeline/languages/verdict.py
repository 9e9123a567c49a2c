"""Runs a script that is a test file or a shell script, and ends with its verdict.

0: the issue is fixed; 2: it is not; 1: the script is broken. The sandbox starts it by `python -c`,
so it imports none of our modules.
"""

import json
import os
import re
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT = 4 * 1024 * 1024
"""Bytes of the output's end in which the verdict is looked for."""
OWN_ERROR = re.compile(
    r"(\S+: )?(line )?\d+: |\S*sh: |make(\[\d+\])?: |(cc1|ls|grep|diff|tar|cd|python3?): "
)
"""How the last line begins where a shell, or what it runs, ended with 2 for a mistake."""


def main() -> None:
    judge = json.loads(sys.argv[1])
    try:
        run = subprocess.Popen(judge["argv"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        sys.stdout.write("%s: %s\n" % (judge["argv"][0], error.strerror))
        sys.exit(1)
    kept = b""
    assert run.stdout is not None
    while True:
        data = os.read(run.stdout.fileno(), 65536)
        if not data:
            break
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        kept = (kept + data)[-KEPT:]
    code = run.wait()
    verdict = find_verdict(judge, code, kept.decode("utf-8", "replace"))
    if verdict == 1:
        sys.stdout.write(
            "\n[It ended with %d, which is no verdict: the script is broken.]\n" % code
        )
    sys.exit(verdict)


def find_verdict(judge: "dict[str, Any]", code: int, output: str) -> int:
    """The verdict of a run by its exit code, and for a test file by what its runner printed."""
    if "codes" in judge:
        last = output.rstrip().rpartition("\n")[2]
        if code == 2 and OWN_ERROR.match(last):
            return 1
        return int(judge["codes"].get(str(code), 1))

    def says(what: str) -> bool:
        return re.search(judge[what], output, re.MULTILINE) is not None

    if says("broken"):
        return 1
    if code == 0:
        return 0 if says("passed") else 1
    return 2 if says("failed") else 1


if __name__ == "__main__":
    main()
