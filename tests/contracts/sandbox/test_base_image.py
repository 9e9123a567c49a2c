from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker

from sandbox.docker.base_image import ensure_base_image
from sandbox.docker.docker_client import connect


def test_the_base_image_is_made_once_however_many_ask(daemon: docker.APIClient) -> None:
    said: list[str] = []

    def ask(_: int) -> str:
        client = connect(None)
        try:
            return ensure_base_image(client, on_progress=said.append)
        finally:
            client.close()

    with ThreadPoolExecutor(3) as pool:
        references = set(pool.map(ask, range(3)))
    assert len(references) == 1
    assert len([line for line in said if "is missing" in line]) <= 1
    assert (
        ensure_base_image(daemon, on_progress=lambda line: said.append(f"again: {line}"))
        in references
    )
    assert not [line for line in said if line.startswith("again")]


def test_the_command_says_ready_and_nothing_else_when_it_is() -> None:
    argv = [sys.executable, "-m", "sandbox.docker.base_image"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("sandbox base image capuchin/base:")
    assert done.stdout.endswith(": ready\n")
    assert done.stderr == ""


def test_the_command_fails_with_a_sentence_when_docker_is_down(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "sandbox.docker.base_image",
        "--docker-url",
        f"unix://{tmp_path}/no",
    ]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Install and start Docker" in done.stderr
    assert "Traceback" not in done.stderr
