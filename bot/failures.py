"""Whose problem an error is: ours to try again, or the maintainer's to hear about."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from bot.errors import (
    PublishRefused,
    RepositoryEmpty,
    RepositoryGone,
    RunFailed,
    TryLater,
    UnfitDiff,
)
from bot.github.errors import Forbidden, GitHubMisconfigured, GitHubUnavailable, NotFound
from bot.types import Failure
from pipeline.codebase.git import GitFailed
from pipeline.models.base import ModelMisconfigured, ModelRefused, ModelUnavailable
from sandbox.errors import EnvironmentFailed, SandboxUnavailable

_LOG_CHARACTERS = 2000
DEFAULT_RETRY_SECONDS = 30.0
"""How long a run waits when nobody said how long."""


_FINAL: dict[type[Exception], Failure] = {
    RepositoryGone: Failure.REPOSITORY_GONE,
    RepositoryEmpty: Failure.REPOSITORY_EMPTY,
    NotFound: Failure.REPOSITORY_GONE,
    Forbidden: Failure.REPOSITORY_GONE,
    ModelMisconfigured: Failure.MODEL_MISCONFIGURED,
    ModelRefused: Failure.MODEL_REFUSED,
    PublishRefused: Failure.PUBLISH_REFUSED,
    # The pipeline lets no such edit through.
    UnfitDiff: Failure.INTERNAL,
}
_TRANSIENT: dict[type[Exception], Failure] = {
    GitHubUnavailable: Failure.GITHUB_UNAVAILABLE,
    # The operator's to mend; until then nothing that was asked for is lost.
    GitHubMisconfigured: Failure.GITHUB_UNAVAILABLE,
    ModelUnavailable: Failure.MODEL_UNAVAILABLE,
    SandboxUnavailable: Failure.SANDBOX_UNAVAILABLE,
    # A damaged mirror; the next start makes it anew.
    GitFailed: Failure.INTERNAL,
}


@contextmanager
def translate_errors() -> Generator[None, None, None]:
    """Turns the errors of GitHub, git, models and sandbox into `TryLater` or `RunFailed`."""
    try:
        yield
    except EnvironmentFailed as error:
        python = error.command != "detect"
        if not python:
            raise RunFailed(Failure.NOT_PYTHON, error.command) from error
        raise RunFailed(Failure.ENVIRONMENT, environment_detail(error)) from error
    except tuple(_FINAL) as error:
        raise RunFailed(_failure_for(_FINAL, error)) from error
    except tuple(_TRANSIENT) as error:
        after = getattr(error, "retry_after", None) or DEFAULT_RETRY_SECONDS
        raise TryLater(_failure_for(_TRANSIENT, error), after) from error


def environment_detail(error: EnvironmentFailed) -> str:
    """The command in one line, what went wrong in one line, then the end of the log."""
    command, sentence = (" ".join(text.split()) for text in (error.command, str(error)))
    return f"{command}\n{sentence}\n{error.log[-_LOG_CHARACTERS:].strip()}"


def _failure_for(table: dict[type[Exception], Failure], error: Exception) -> Failure:
    return next(failure for kind, failure in table.items() if isinstance(error, kind))
