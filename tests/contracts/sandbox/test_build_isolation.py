"""What a build step can reach and what it may keep, and the repository's own Dockerfile."""

import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import docker
import pytest

from sandbox.docker import build_steps as disk
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.docker.registry import NotFetched, Registry
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.environment.dockerfile import ImageName
from sandbox.errors import EnvironmentFailed
from sandbox.program import Program
from tests.support.docker import (
    OWNER,
    PACKAGE,
    any_engine,
    build_environment,
    containers_of,
    gateway_of,
    make_tree,
    run_in,
)
from tests.support.registry import LocalRegistry

__all__ = ["any_engine"]


WORKFLOW = """\
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: sudo apt-get install -y NAME
      - run: pip install .
      - run: python -m unittest
"""
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


async def test_a_build_reaches_the_private_hosts_that_the_operator_names(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    """Also the index on a private address, without an entry; both on the operator's network."""
    gateway = gateway_of(daemon, "bridge")
    tree = make_tree(tmp_path, {"a.py": ""})
    with socket.create_server((gateway, 0)) as host:
        port = host.getsockname()[1]
        for given in (
            {"private_hosts": (f"{gateway}:{port}",)},
            {"private_hosts": (f"{gateway}/16",)},
            {"index_url": f"http://{gateway}:{port}/simple"},
        ):
            options = BuildOptions(ca_bundle=ca_bundle, **given)  # pyright: ignore[reportArgumentType] - either
            engine = DockerEngine(DockerOptions(owner=OWNER, build=options))
            step = (
                "exec 3<>/dev/tcp/127.0.0.1/3142 && "
                f"printf 'CONNECT {gateway}:{port} HTTP/1.1\\r\\n\\r\\n' >&3 && head -1 <&3; exit 1"
            )
            with pytest.raises(EnvironmentFailed) as failed:
                await build_environment(
                    engine, EnvironmentRequest(tree, setup=[step], scope=run_id)
                )
            assert "HTTP/1.1 200" in failed.value.log
            await engine.close()


async def test_a_secret_is_seen_by_the_step_and_kept_nowhere(
    trusted: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    program = "import os; print(len(os.environ['PIP_EXTRA_INDEX_URL']), file=open('seen', 'w'))"
    step = f'python -c "{program}"'
    image = await build_environment(trusted, EnvironmentRequest(tree, setup=[step], scope=run_id))
    search = (
        f"cat seen; env; grep -rlF {SECRET[:20]} / --exclude-dir=proc --exclude-dir=sys || true"
    )
    async with trusted.open(image, run_id=run_id) as sandbox:
        run = await sandbox.run(Program(["sh", "-c", search]))
        printed = await sandbox.run(Program(["echo", f"a test prints {SECRET}"]))
    assert (SECRET in printed.output, printed.output[:14]) == (False, "a test prints ")
    assert run.output.startswith(str(len(f"http://me:{SECRET}@127.0.0.1:1/simple")))
    assert "INDEX" not in run.output
    assert "/testbed" not in run.output.replace("PWD=/testbed", "")
    layers = cast(list[dict[str, Any]], daemon.history(image))
    facts = cast(dict[str, Any], daemon.inspect_image(image))
    assert SECRET not in repr(layers) + repr(facts)


LATE = """env; test -e /opt/env/once || exec touch /opt/env/once; python - <<'END'
import pathlib, sysconfig
said = "os.environ.get('PIP_EXTRA_INDEX_URL', '')"
line = f"import os, sys; '-c' in sys.orig_argv and open('/opt/env/kept', 'a').write({said})"
pathlib.Path(sysconfig.get_paths()["purelib"], "late.pth").write_text(line)
END"""
"""In the second layer, for the Python that starts after the steps."""


@pytest.mark.parametrize("step", ["env | tee kept", LATE])
async def test_an_image_that_would_keep_a_secret_is_thrown_away_and_the_log_hides_it(
    trusted: DockerEngine, tmp_path: Path, run_id: str, step: str
) -> None:
    tree = make_tree(tmp_path, {"app.py": ""})
    with pytest.raises(EnvironmentFailed, match="wrote a secret") as failed:
        await build_environment(trusted, EnvironmentRequest(tree, setup=[step], scope=run_id))
    assert "/kept holds a secret" in failed.value.log
    assert "PIP_EXTRA_INDEX_URL=***" in failed.value.log
    assert SECRET not in failed.value.log


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"npm_registry": "https://a:b@npm.example"}, "npm_registry must not carry"),
        ({"secrets": {"PATH": "long enough"}}, '"PATH" is not a variable'),
        ({"secrets": {"A-B": "long enough"}}, '"A-B" is not a variable'),
        ({"secrets": {"TOKEN": "short"}}, "fewer than 8"),
    ],
)
def test_what_would_break_the_isolation_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        BuildOptions(**given)


async def test_a_python_that_is_not_there_is_reported_in_a_sentence_before_anything_is_installed(
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
        await build_environment(engine, EnvironmentRequest(tree, run_id=run_id))
    await engine.close()
    message = str(failed.value)
    assert message.startswith(
        "This repository asks for Python >=3.13 (requires-python in pyproject.toml), and the "
        "sandbox has 3.11. uv could not fetch Python 3.1"
    )
    assert "UV_PYTHON_INSTALL_MIRROR" in message
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
    request = EnvironmentRequest(tree, dockerfile="ci/Dockerfile", setup=[seen], run_id=run_id)
    ask = "cat seen /srv/who ran mode; id -u; tool; pwd; echo $SHOP_MODE $HOME; command -v python"
    run = await run_in(engine, request, Program(["sh", "-c", ask]))
    assert run.output.splitlines() == [
        *("bin", "here", "made", "there.toml", "venv", "who", "0"),
        *("nobody", "/srv/here", "default", "of the image"),
        *("10001", "tool", "/testbed", "of the image /tmp/home", "/opt/env/bin/python"),
    ]
    assert containers_of(daemon, run_id) == []


async def test_system_packages_come_through_the_proxy_beside_the_build(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    files = {**PACKAGE, ".github/workflows/test.yml": WORKFLOW.replace("NAME", "hello")}
    request = EnvironmentRequest(make_tree(tmp_path, files), run_id=run_id)
    assert "Hello, world!" in (await run_in(engine, request, Program(["hello"]))).output


async def test_of_alternative_system_packages_the_first_that_debian_has_is_installed(
    engine: DockerEngine, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Rust is asked for, and much smaller.
    compiler = ("no-such-package|hello", "sl|hello-traditional")
    monkeypatch.setattr("pipeline.languages.python.install.COMPILER", compiler)
    setup = "from setuptools import setup  # no Extension()\nsetup(name='shop', version='1')\n"
    request = EnvironmentRequest(make_tree(tmp_path, {"setup.py": setup, "a.c": ""}), run_id=run_id)
    run = await run_in(engine, request, Program(["sh", "-c", "hello && ls /usr/games"]))
    assert run.output == "Hello, world!\nsl\n"


async def test_a_mirror_of_packages_that_does_not_answer_is_asked_again_by_the_next_build(
    engine: DockerEngine, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**PACKAGE, ".github/workflows/test.yml": WORKFLOW.replace("NAME", "cowsay")}
    request = EnvironmentRequest(make_tree(tmp_path, files), run_id=run_id)
    asked = 0

    def answer_nothing(*_: object, **__: object) -> bool:
        nonlocal asked
        asked += 1
        return False

    monkeypatch.setattr(
        "sandbox.docker.build_image.EnvironmentBuild._build_packages", answer_nothing
    )
    for number in (1, 2):
        image = await build_environment(engine, request)
        assert asked == number
    async with engine.open(image, run_id=run_id) as sandbox:
        assert (await sandbox.run(Program(["python", "-c", "import shop"]))).exit_code == 0


async def build_on(
    image: str, folder: Path, run_id: str, *, registries: tuple[str, ...], **options: Any
) -> str:
    """What an image built on `image` holds of the file `/word` in it."""
    build, daemon = BuildOptions(registries=registries, **options), docker.APIClient()
    engine = DockerEngine(DockerOptions(owner=OWNER, build=build))
    dockerfile = f"FROM {image} AS first\nFROM capuchin/base\nCOPY --from=first /word /srv/word\n"
    dockerfile += "HEALTHCHECK CMD touch /tmp/healthy\n"
    tree = make_tree(folder, {"a.py": "", "Dockerfile": dockerfile})
    request = EnvironmentRequest(tree, dockerfile="Dockerfile", setup=["true"], scope=run_id)
    try:
        built = await build_environment(engine, request)
        async with engine.open(built, run_id=run_id) as sandbox:
            for one in containers_of(daemon, run_id):
                assert "Health" not in cast(dict[str, Any], daemon.inspect_container(one))["State"]
            return (await sandbox.run(Program(["cat", "/srv/word"]))).output
    finally:
        await engine.close()


async def test_an_image_comes_from_the_registries_that_the_operator_names_and_does_not_stay(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    with LocalRegistry().serve() as registry:
        image = registry.add("acme/word", {"word": run_id.encode()}, times=2)
        with pytest.raises(EnvironmentFailed, match=r"docker\.io"):
            await build_on(image, tmp_path, run_id, registries=("docker.io",), ca_bundle=ca_bundle)
        assert registry.asked == []
        named = ("docker.io", registry.host)
        said = await build_on(image, tmp_path, run_id, registries=named, ca_bundle=ca_bundle)
    assert said == run_id
    assert daemon.images("capuchin/pulled") == []


@pytest.mark.parametrize(
    "how", ["unpacks", "is away", "has our labels", "has triggers", "has many layers"]
)
async def test_an_image_that_cannot_be_had_is_told_in_our_own_words_and_leaves_nothing(
    ca_bundle: Path | None, tmp_path: Path, run_id: str, daemon: docker.APIClient, how: str
) -> None:
    with LocalRegistry().serve() as registry:
        # An image of its own each time: one that Docker has is not fetched.
        word = run_id.encode() + b"\0" * (60_000_000 if how == "unpacks" else 0)
        labels = {"capuchin.run": "theirs"} if how == "has our labels" else {}
        triggers = ["RUN true"] if how == "has triggers" else None
        settings = {"Labels": labels, "OnBuild": triggers}
        times = 200 if how == "has many layers" else 1
        image = registry.add("acme/word", {"word": word}, settings=settings, times=times)
        registry.status = 500 if how == "is away" else 200
        given = {"ca_bundle": ca_bundle, "written_mb": 50}
        with pytest.raises(EnvironmentFailed) as failed:
            await build_on(image, tmp_path, run_id, registries=(registry.host,), **given)
    assert failed.value.command == f"FROM {image}"
    assert "words" not in failed.value.log + str(failed.value)
    assert daemon.images("capuchin/pulled") == []


def test_a_registry_that_sends_byte_by_byte_is_left_in_time(run_id: str) -> None:
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() > began + 1:
            raise NotFetched("late")

    with LocalRegistry().serve() as registry:
        name = ImageName.parse(registry.add("acme/word", {"word": run_id.encode()}))
        registry.pause = 0.1
        with (
            closing(Registry(name, ca_bundle=None, proxy="", check=check)) as reader,
            pytest.raises(NotFetched, match="late"),
        ):
            reader.read_manifest("amd64")
    assert time.monotonic() < began + 10


@pytest.mark.parametrize(
    ("fill", "said", "seldom"),
    [
        ("head -c 100000000 /dev/zero > /tmp/filled; sleep 600", "30 MB", 0.2),
        # However seldom it is measured: what the disk holds grows.
        ("head -c 100000000 /dev/zero > /tmp/filled; sync; sleep 600", "30 MB", 500.0),
        (
            "mkdir /tmp/many; cd /tmp/many; seq 40000 | xargs touch; sleep 600",
            "20,000 files",
            500.0,
        ),
    ],
)
async def test_a_build_that_fills_the_disk_is_ended_and_reported(
    ca_bundle: Path | None,
    tmp_path: Path,
    run_id: str,
    daemon: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    fill: str,
    said: str,
    seldom: float,
) -> None:
    monkeypatch.setattr(disk, "MEASURE_SECONDS", seldom)
    monkeypatch.setattr(disk, "MOST_FILES", 20_000 if "files" in said else disk.MOST_FILES)
    engine = DockerEngine(
        DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle, written_mb=30))
    )
    dockerfile = f"FROM capuchin/base\nRUN {fill}\n"
    tree = make_tree(tmp_path, {"a.py": "", "Dockerfile": dockerfile})
    for given, words in (({"setup": [fill]}, "installation"), ({"dockerfile": "Dockerfile"}, "")):
        with pytest.raises(EnvironmentFailed, match=f"wrote more than {said}") as failed:
            await build_environment(
                engine,
                EnvironmentRequest(tree, run_id=run_id, scope=run_id, **given),  # pyright: ignore[reportArgumentType] - either
            )
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
        await build_environment(
            engine, EnvironmentRequest(tree, setup=[fill], run_id=run_id, scope=run_id)
        )
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
        await build_environment(
            trusted, EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id, scope=run_id)
        )
    assert "HOME=/root" in failed.value.log
    assert "cannot access '/var/run/docker.sock'" in failed.value.log
    assert "walled" in failed.value.log
    assert SECRET not in failed.value.log
    assert "INDEX" not in failed.value.log


async def test_a_dockerfile_that_fails_is_reported_with_its_instruction_and_log(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(
        tmp_path, {"a.py": "", "Dockerfile": "FROM capuchin/base\nRUN echo words && exit 7\n"}
    )
    with pytest.raises(
        EnvironmentFailed, match="An instruction of the Dockerfile failed"
    ) as failed:
        await build_environment(
            engine, EnvironmentRequest(tree, dockerfile="Dockerfile", run_id=run_id)
        )
    assert failed.value.command == "RUN echo words && exit 7"
    assert "words" in failed.value.log


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
