"""What a build step can reach and what it may keep, and the repository's own Dockerfile."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import docker
import pytest

from sandbox.docker.engine import DockerEngine
from sandbox.docker.options import DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.options import BuildOptions
from sandbox.errors import EnvironmentFailed, SandboxUnavailable
from sandbox.program import Program
from tests.support.attack_scripts import METADATA_PROBE
from tests.support.docker import OWNER, PACKAGE, any_engine, containers_of, make_tree

__all__ = ["any_engine"]

SUBNET = "10.213.77"
ADDRESSES = f"grep -q {SUBNET} /proc/net/fib_trie && echo it is o''n; exit 1"
SECRET = f"hunter2-{uuid4().hex}"


@pytest.fixture
async def trusted(ca_bundle: Path | None) -> AsyncIterator[DockerEngine]:
    """An engine whose operator lets builds in to a private index."""
    secrets = {"PIP_EXTRA_INDEX_URL": f"http://me:{SECRET}@127.0.0.1:1/simple"}
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, secrets=secrets))
    )
    yield engine
    await engine.close()


async def test_a_build_is_on_the_network_that_the_operator_names(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    network = f"capuchin-{run_id}"
    ipam = {"Driver": "default", "Config": [{"Subnet": f"{SUBNET}.0/24"}]}
    cast(Any, daemon).create_network(network, internal=True, ipam=ipam)
    tree = make_tree(tmp_path, {"a.py": "", "Dockerfile": f"FROM capuchin/base\nRUN {ADDRESSES}\n"})
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, network=network))
    )
    try:
        for given in ({"setup": [ADDRESSES]}, {"dockerfile": "Dockerfile"}):
            with pytest.raises(EnvironmentFailed) as failed:
                await engine.prepare(EnvironmentRequest(tree, run_id=run_id, scope=run_id, **given))  # pyright: ignore[reportArgumentType] - either
            assert "it is on\n" in failed.value.log
    finally:
        await engine.close()
        daemon.remove_network(network)


async def test_a_network_that_docker_does_not_know_is_reported(
    ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, network="no-such"))
    )
    with pytest.raises(SandboxUnavailable, match=r"no-such.*CAPUCHIN_BUILD_NETWORK"):
        await engine.prepare(
            EnvironmentRequest(make_tree(tmp_path, {"a.py": ""}), setup=["true"], scope=run_id)
        )
    await engine.close()


async def test_a_secret_is_seen_by_the_step_and_kept_nowhere(
    trusted: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    program = "import os; print(len(os.environ['PIP_EXTRA_INDEX_URL']), file=open('seen', 'w'))"
    step = f'python -c "{program}"'
    image = await trusted.prepare(EnvironmentRequest(tree, setup=[step], scope=run_id))
    search = (
        f"cat seen; env; grep -rlF {SECRET[:20]} / --exclude-dir=proc --exclude-dir=sys || true"
    )
    async with trusted.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(Program(["sh", "-c", search]))
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
        await trusted.prepare(EnvironmentRequest(tree, setup=["env | tee kept"], scope=run_id))
    assert "/testbed/kept holds a secret" in failed.value.log
    assert "PIP_EXTRA_INDEX_URL=***" in failed.value.log
    assert SECRET not in failed.value.log


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"network": "host"}, "must not be the host's"),
        ({"npm_registry": "https://a:b@npm.example"}, "npm_registry must not carry"),
        ({"secrets": {"PATH": "long enough"}}, '"PATH" is not a variable'),
        ({"secrets": {"A-B": "long enough"}}, '"A-B" is not a variable'),
        ({"secrets": {"TOKEN": "short"}}, "fewer than 8"),
    ],
)
def test_what_would_break_the_isolation_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        BuildOptions(**given)


async def test_a_python_that_is_not_there_is_told_in_a_sentence_before_anything_is_installed(
    ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    engine = DockerEngine(
        DockerOptions(
            owner=OWNER,
            build=BuildOptions(ca_bundle=ca_bundle, python_mirror="http://127.0.0.1:9/mirror"),
        )
    )
    project = '[project]\nname = "x"\nrequires-python = ">=3.13"\n'
    tree = make_tree(tmp_path, {"app.py": "", "pyproject.toml": project})
    with pytest.raises(EnvironmentFailed) as failed:
        await engine.prepare(EnvironmentRequest(tree, run_id=run_id))
    await engine.close()
    message = str(failed.value)
    assert message.startswith(
        "This repository asks for Python >=3.13 (requires-python in pyproject.toml), and the "
        "sandbox has 3.11. uv could not fetch Python 3.13."
    )
    assert "CAPUCHIN_BUILD_PYTHON_MIRROR" in message
    assert "127.0.0.1:9/mirror" in failed.value.log  # the mirror was asked, not GitHub


async def test_a_dockerfile_makes_what_the_repository_is_installed_in(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    dockerfile = """\
# The checkout is there too.
ARG OF=capuchin/base
FROM $OF AS first
ARG WORD=default
USER root
RUN mkdir -p /srv/made && echo "$WORD" > /srv/made/word
FROM ${OF}
COPY --from=first /srv/made /srv/made
COPY pyproject.toml /srv/there.toml
RUN id -u > /srv/who && \\
    python3 -m venv /srv/venv
ENV PATH=/srv/venv/bin:$PATH SHOP_MODE="of the image" HOME=/srv
RUN mkdir -p /srv/bin && \\
    printf '#!/bin/sh\\necho tool\\n' > /srv/venv/bin/tool && chmod +x /srv/venv/bin/tool
WORKDIR /srv/here
USER nobody
RUN id -un > /tmp/as && pwd > /tmp/at
ENTRYPOINT ["false"]
"""
    tree = make_tree(tmp_path, {**PACKAGE, "ci/Dockerfile": dockerfile})
    seen = "ls /srv > seen; echo $SHOP_MODE > mode; cat /tmp/as /tmp/at /srv/made/word > ran"
    image = await engine.prepare(
        EnvironmentRequest(tree, dockerfile="ci/Dockerfile", setup=[seen], run_id=run_id)
    )
    ask = "cat seen /srv/who ran mode; id -u; tool; pwd; echo $SHOP_MODE $HOME; command -v python"
    async with engine.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(Program(["sh", "-c", ask]))
    assert run.output.splitlines() == [
        *("bin", "here", "made", "there.toml", "venv", "who", "0"),
        *("nobody", "/srv/here", "default", "of the image"),
        *("10001", "tool", "/testbed", "of the image /tmp", "/opt/env/bin/python"),
    ]
    assert containers_of(daemon, run_id) == []


async def test_a_build_that_fills_the_disk_is_ended_and_told(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, written_mb=30))
    )
    fill = "head -c 100000000 /dev/zero > /tmp/filled; sleep 600"
    dockerfile = f"FROM capuchin/base\nRUN {fill}\n"
    tree = make_tree(tmp_path, {"a.py": "", "Dockerfile": dockerfile})
    for given, words in (({"setup": [fill]}, "installation"), ({"dockerfile": "Dockerfile"}, "")):
        with pytest.raises(EnvironmentFailed, match="wrote more than 30 MB") as failed:
            await engine.prepare(EnvironmentRequest(tree, run_id=run_id, scope=run_id, **given))  # pyright: ignore[reportArgumentType] - either
        assert words in str(failed.value)
        assert failed.value.command.endswith(fill)
    await engine.close()
    assert containers_of(daemon, run_id) == []


async def test_one_file_of_a_build_stops_at_the_limit_of_the_disk(
    ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    """However fast it grows, and though the step ends before anybody has looked."""
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, written_mb=30))
    )
    tree = make_tree(tmp_path, {"a.py": ""})
    fill = "head -c 900000000 /dev/zero > /tmp/f || { stat -c %s /tmp/f; exit 1; }"
    with pytest.raises(EnvironmentFailed, match="wrote more than 30 MB") as failed:
        await engine.prepare(EnvironmentRequest(tree, setup=[fill], run_id=run_id, scope=run_id))
    assert failed.value.log.split()[-1] == "31000000"
    await engine.close()


async def test_a_dockerfile_sees_no_secret_and_nothing_of_the_host(
    trusted: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    lines = (
        "FROM capuchin/base",
        "RUN env; ls /var/run/docker.sock /run/docker.sock; cat /proc/1/environ; mount",
        "RUN mount -t tmpfs none /mnt || unshare -m true || echo walled; exit 1",
    )
    tree = make_tree(tmp_path, {"a.py": "", "Dockerfile": "\n".join(lines)})
    with pytest.raises(EnvironmentFailed) as failed:
        await trusted.prepare(
            EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id, scope=run_id)
        )
    assert "HOME=/root" in failed.value.log
    assert "cannot access '/var/run/docker.sock'" in failed.value.log
    assert "walled" in failed.value.log
    assert SECRET not in failed.value.log
    assert "INDEX" not in failed.value.log


async def test_a_dockerfile_that_fails_is_told_with_its_instruction_and_log(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(
        tmp_path, {"a.py": "", "Dockerfile": "FROM capuchin/base\nRUN echo words && exit 7\n"}
    )
    with pytest.raises(
        EnvironmentFailed, match="An instruction of the Dockerfile failed"
    ) as failed:
        await engine.prepare(EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id))
    assert failed.value.command == "RUN echo words && exit 7"
    assert "words" in failed.value.log


async def test_a_dockerfile_cannot_reach_the_clouds_metadata(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    text = "FROM capuchin/base\nCOPY knock.py /\nRUN python3 /knock.py; exit 1\n"
    tree = make_tree(tmp_path, {"knock.py": METADATA_PROBE, "Dockerfile": text})
    with pytest.raises(EnvironmentFailed) as failed:
        await engine.prepare(EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id))
    assert " open" not in failed.value.log
    assert "169.254.169.254 OSError" in failed.value.log
