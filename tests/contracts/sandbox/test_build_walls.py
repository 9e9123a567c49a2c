"""What a build step can reach and what it may keep, and the repository's own Dockerfile."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import docker
import pytest

from sandbox.base import EnvironmentFailed
from sandbox.docker import DockerEngine
from tests.docker import OWNER, PACKAGE, any_engine, containers_of, make_tree
from tests.safety.test_building import KNOCK

__all__ = ["any_engine"]

SECRET = f"hunter2-{uuid4().hex}"


@pytest.fixture
async def trusted(ca_bundle: Path | None) -> AsyncIterator[DockerEngine]:
    """An engine whose operator lets builds in to a private index."""
    secrets = {"PIP_EXTRA_INDEX_URL": f"http://me:{SECRET}@127.0.0.1:1/simple"}
    engine = DockerEngine(ca_bundle=ca_bundle, owner=OWNER, build_secrets=secrets)
    yield engine
    await engine.close()


async def test_a_secret_is_seen_by_the_step_and_kept_nowhere(
    trusted: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    program = "import os; print(len(os.environ['PIP_EXTRA_INDEX_URL']), file=open('seen', 'w'))"
    step = f'python -c "{program}"'
    image = await trusted.prepare(tree, setup=[step], scope=run_id)
    search = (
        f"cat seen; env; grep -rlF {SECRET[:20]} / --exclude-dir=proc --exclude-dir=sys || true"
    )
    async with trusted.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run_command(["sh", "-c", search])
    assert run.output.startswith(str(len(f"http://me:{SECRET}@127.0.0.1:1/simple")))
    assert "INDEX" not in run.output
    assert "/testbed" not in run.output.replace("PWD=/testbed", "")
    layers = cast(list[dict[str, Any]], daemon.history(image))
    facts = cast(dict[str, Any], daemon.inspect_image(image))
    assert SECRET not in repr(layers) + repr(facts)


async def test_an_image_that_would_keep_a_secret_is_thrown_away_and_the_log_hides_it(
    trusted: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    with pytest.raises(EnvironmentFailed, match="wrote a secret") as failed:
        await trusted.prepare(tree, setup=["env | tee kept"], scope=run_id)
    assert "/testbed/kept holds a secret" in failed.value.log
    assert "PIP_EXTRA_INDEX_URL=***" in failed.value.log
    assert SECRET not in failed.value.log


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"build_network": "host"}, "must not be the host's"),
        ({"npm_registry": "https://a:b@npm.example"}, "npm_registry must not carry"),
        ({"build_secrets": {"PATH": "long enough"}}, '"PATH" is no variable'),
        ({"build_secrets": {"A-B": "long enough"}}, '"A-B" is no variable'),
        ({"build_secrets": {"TOKEN": "short"}}, "fewer than 8"),
    ],
)
def test_what_would_open_a_wall_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        DockerEngine(**given)


async def test_a_python_that_is_not_there_is_told_in_a_sentence_before_anything_is_installed(
    ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    engine = DockerEngine(
        ca_bundle=ca_bundle, owner=OWNER, python_mirror="http://127.0.0.1:9/mirror"
    )
    project = '[project]\nname = "x"\nrequires-python = ">=3.13"\n'
    tree = make_tree(tmp_path, {"app.py": "", "pyproject.toml": project})
    with pytest.raises(EnvironmentFailed) as failed:
        await engine.prepare(tree, run_id=run_id)
    await engine.close()
    said = str(failed.value)
    assert said.startswith(
        "This repository asks for Python >=3.13 (requires-python in pyproject.toml), and the "
        "sandbox has 3.11. uv could not fetch Python 3.13."
    )
    assert "CAPUCHIN_BUILD_PYTHON_MIRROR" in said
    assert "127.0.0.1:9/mirror" in failed.value.log  # the mirror was asked, not GitHub


async def test_a_dockerfile_makes_what_the_repository_is_installed_in(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    dockerfile = """\
# The checkout is there too.
FROM capuchin/base AS first
USER root
COPY pyproject.toml /srv/there.toml
RUN id -u > /srv/who && \\
    python3 -m venv /srv/venv
ENV PATH=/srv/venv/bin:$PATH
RUN echo 'print("made")' > /srv/venv/bin/tool.py && mkdir -p /srv/bin && \\
    printf '#!/bin/sh\\necho tool\\n' > /srv/venv/bin/tool && chmod +x /srv/venv/bin/tool
USER nobody
WORKDIR /srv
ENTRYPOINT ["false"]
"""
    tree = make_tree(tmp_path, {**PACKAGE, "ci/Dockerfile": dockerfile})
    image = await engine.prepare(
        tree, dockerfile="ci/Dockerfile", setup=["ls /srv > seen"], run_id=run_id
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run_command(["sh", "-c", "cat seen /srv/who; id -u; tool; pwd"])
    assert run.output.split() == [
        "bin", "there.toml", "venv", "who", "0", "10001", "tool", "/testbed",
    ]  # fmt: skip
    assert containers_of(daemon, run_id) == []


async def test_a_dockerfile_that_fails_is_told_with_its_instruction_and_log(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(
        tmp_path, {"a.py": "", "Dockerfile": "FROM capuchin/base\nRUN echo words && exit 7\n"}
    )
    with pytest.raises(
        EnvironmentFailed, match="An instruction of the Dockerfile failed"
    ) as failed:
        await engine.prepare(tree, dockerfile="Dockerfile", run_id=run_id)
    assert failed.value.command == "RUN echo words && exit 7"
    assert "words" in failed.value.log


async def test_a_dockerfile_cannot_reach_the_clouds_metadata(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    text = "FROM capuchin/base\nCOPY knock.py /\nRUN python3 /knock.py; exit 1\n"
    tree = make_tree(tmp_path, {"knock.py": KNOCK, "Dockerfile": text})
    with pytest.raises(EnvironmentFailed) as failed:
        await engine.prepare(tree, dockerfile="Dockerfile", run_id=run_id)
    assert " open" not in failed.value.log
    assert "169.254.169.254 OSError" in failed.value.log
