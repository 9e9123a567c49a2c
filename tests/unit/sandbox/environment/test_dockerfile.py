"""Which Dockerfiles are let through to the daemon."""

import pytest

from sandbox.environment.dockerfile import check_dockerfile
from sandbox.errors import EnvironmentFailed


def test_a_plain_one_passes_with_its_images_and_arguments_put_in() -> None:
    text = (
        "# comment\nARG PY=3.9\nFROM python:${PY}-slim AS build\nRUN a && \\\n  # why\n  b\n"
        "FROM capuchin/base\nCOPY --from=build --chown=1:1 /x /y\nADD data.tar /data\nUSER nobody\n"
    )
    found = check_dockerfile(text, ["docker.io"])
    assert found.images == ("python:3.9-slim", "capuchin/base")
    assert found.render(
        {"python:3.9-slim": "sha256:1", "capuchin/base": "ours"}, {"a.b": "c d"}
    ) == (
        'ARG PY=3.9\nFROM sha256:1 AS build\nLABEL a.b="c d"\nRUN a &&    b\n'
        'FROM ours\nLABEL a.b="c d"\n'
        "COPY --from=build --chown=1:1 /x /y\nADD data.tar /data\nUSER nobody\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "RUN --mount=type=secret,id=x cat /run/secrets/x",
        "RUN --network=host curl localhost",
        "RUN --security=insecure mount",
        "run \\\n --mount=type=bind,source=/ ls",
        "RUN <<EOF\nls\nEOF",
        "COPY <<EOF /x\nls\nEOF",
        "COPY --from=capuchin/tree:abc / /x",
        "COPY --from=3 / /x",
        "COPY --from=² / /x",
        f"COPY --from={'1' * 5_000} / /x",
        "COPY --from=nginx:latest /etc /x",
        "COPY --link a b",
        "ADD http://169.254.169.254/latest /x",
        "ADD git@github.com:a/b.git /x",
        "ADD $WHERE /x",
        "VOLUME /opt",
        "ONBUILD ADD http://169.254.169.254/ /x",
        "LABEL capuchin.owner=other",
        "LABEL cap\\uchin.owner=other",
        'LABEL cap"uch"in.owner=other',
        "LABEL a=b ${X}uchin.owner=other",
        "LABEL $X other",
        "ADD http:\\//169.254.169.254/latest /x",
        'ADD http:"//"169.254.169.254/latest /x',
        'ADD ["http:\\u002f\\u002f169.254.169.254/latest", "/x"]',
        'ADD ["http:\\/\\/169.254.169.254/latest", "/x"]',
        "FROM metadata.google.internal/x",
        "FROM internal.corp.example/x",
        "FROM ghcr.io/a/b",
        "FROM capuchin/tree:5f9b8a46d329",
        "FROM capuchin/base:777ecbeea8ae",
        "FROM 3b37bbb08a9c",
        "FROM sha256:3b37bbb08a9c",
        "FROM localhost:5000/x",
        "FROM 10.0.0.1/x",
        "FROM --platform=linux/amd64 python",
        "FROM $IMAGE",
        "INCLUDE other",
        "# syntax=evil/frontend",
        "#escape=`",
    ],
)
def test_what_acts_outside_the_build_is_refused(line: str) -> None:
    with pytest.raises(EnvironmentFailed, match="The Dockerfile is refused: "):
        check_dockerfile(f"FROM python:3.11\n{line}\n", ["docker.io"])


def test_one_without_an_image_is_reported() -> None:
    with pytest.raises(EnvironmentFailed, match="no FROM"):
        check_dockerfile("RUN true\n", ["docker.io"])
