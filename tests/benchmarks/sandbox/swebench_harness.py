"""How the SWE-bench harness and the CodeMonkeys code execute: the baseline that we came from.

One container for each execution, as root and with network; the edit is copied in and applied by an
`exec`, then the test is copied in and run by another (`swebench/harness/run_evaluation.py`,
`codemonkeys/swe_bench/test_runner`). Both wait up to 15 seconds for a container to stop that
ignores the signal; that wait is left out here, in their favour.
"""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import docker

from sandbox.docker.docker_client import connect
from sandbox.layout import ENVIRONMENT, LABEL_OWNER, LABEL_RUN, TREE

HARNESS: Final = "the SWE-bench harness's and CodeMonkeys' way"


class SwebenchHarness:
    """Executes on a prepared `image`."""

    def __init__(self, image: str) -> None:
        self._image = image

    def matrix(self, tests: Sequence[str], diffs: Sequence[str], parallel: int) -> float:
        """Seconds of every test on every diff."""
        begun = time.perf_counter()
        client = connect(None)
        with ThreadPoolExecutor(parallel) as pool:
            cells = [pool.submit(self._run_pair, client, d, t) for d in diffs for t in tests]
            for cell in cells:
                cell.result()
        client.close()
        return time.perf_counter() - begun

    def _run_pair(self, client: docker.APIClient, diff: str, test: str) -> None:
        made = cast(Any, client).create_container(
            self._image,
            entrypoint=["tail", "-f", "/dev/null"],
            user="root",
            labels={LABEL_RUN: "bench", LABEL_OWNER: "bench"},
        )
        container = str(made["Id"])
        try:
            client.start(container)
            if diff:
                copy(client, container, "patch.diff", diff)
                run(client, container, ["git", "apply", "-v", "/tmp/patch.diff"])
            copy(client, container, "test.py", test)
            run(client, container, [f"{ENVIRONMENT}/bin/python", "/tmp/test.py"])
        finally:
            client.remove_container(container, force=True, v=True)


def copy(client: docker.APIClient, container: str, name: str, text: str) -> None:
    data = text.encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    client.put_archive(container, "/tmp", packed.getvalue())


def run(client: docker.APIClient, container: str, argv: Sequence[str]) -> None:
    found = {"PYTHONPATH": TREE}
    asked = client.exec_create(container, list(argv), workdir=TREE, user="root", environment=found)
    client.exec_start(asked["Id"])
    code = client.exec_inspect(asked["Id"])["ExitCode"]
    assert code == 0, (argv, code)
