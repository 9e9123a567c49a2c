"""Which Dockerfiles are let through to the daemon."""

import pytest

from sandbox.environment.dockerfile import check_dockerfile
from sandbox.errors import EnvironmentFailed
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


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


@pytest.mark.parametrize("line", [*TEXTS["REFUSED"], f"COPY --from={'1' * 5_000} / /x"])
def test_what_acts_outside_the_build_is_refused(line: str) -> None:
    with pytest.raises(EnvironmentFailed, match="The Dockerfile is refused: "):
        check_dockerfile(f"FROM python:3.11\n{line}\n", ["docker.io"])


def test_one_without_an_image_is_reported() -> None:
    with pytest.raises(EnvironmentFailed, match="no FROM"):
        check_dockerfile("RUN true\n", ["docker.io"])
