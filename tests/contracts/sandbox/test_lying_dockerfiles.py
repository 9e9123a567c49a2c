"""Dockerfiles whose image is not what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from tests.support.docker import any_engine, build_environment, make_tree

__all__ = ["any_engine"]

REPLACE = """\
RUN for path in /usr/bin/python3* /usr/local/bin/python3*; do \\
  test ! -f $path || printf '#!/bin/sh\\n{}\\n' > $path; done
"""


@pytest.mark.parametrize("says", ["exit 1", "exit 0"], ids=["no python", "one that says yes"])
async def test_a_python_that_is_none_is_told_in_a_sentence(
    engine: DockerEngine, tmp_path: Path, run_id: str, says: str
) -> None:
    text = "FROM capuchin/base\nUSER root\n" + REPLACE.format(says)
    tree = make_tree(tmp_path, {"a.py": "", "Dockerfile": text})
    with pytest.raises(EnvironmentFailed, match="must provide python3"):
        await build_environment(
            engine, EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id)
        )
