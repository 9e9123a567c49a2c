"""Decides what an error means for a run: try again later, or fail and report it."""

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
from bot.github.errors import (
    Forbidden,
    GitHubMisconfigured,
    GitHubUnavailable,
    NotFound,
    WritesSpent,
)
from bot.types import Failure
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.models.base import ModelMisconfigured, ModelRefused, ModelUnavailable
from sandbox.errors import EnvironmentFailed, SandboxUnavailable

_LOG_CHARACTERS = 2000
_CAUSE_CHARACTERS = 300
DEFAULT_RETRY_SECONDS = 30.0
"""The pause before the next try when an error names none."""


_FINAL: dict[type[Exception], Failure] = {
    RepositoryGone: Failure.REPOSITORY_GONE,
    RepositoryEmpty: Failure.REPOSITORY_EMPTY,
    NotFound: Failure.REPOSITORY_GONE,
    Forbidden: Failure.REPOSITORY_GONE,
    ModelMisconfigured: Failure.MODEL_MISCONFIGURED,
    ModelRefused: Failure.MODEL_REFUSED,
    PublishRefused: Failure.PUBLISH_REFUSED,
    # The pipeline rejects such edits, so this is a bug.
    UnfitDiff: Failure.INTERNAL,
}
_TRANSIENT: dict[type[Exception], Failure] = {
    WritesSpent: Failure.WRITES_SPENT,
    GitHubUnavailable: Failure.GITHUB_UNAVAILABLE,
    # Only the operator can repair this; requests wait until then.
    GitHubMisconfigured: Failure.GITHUB_UNAVAILABLE,
    ModelUnavailable: Failure.MODEL_UNAVAILABLE,
    SandboxUnavailable: Failure.SANDBOX_UNAVAILABLE,
    # A damaged mirror; the next start makes a new one.
    GitFailed: Failure.INTERNAL,
}


@contextmanager
def translate_errors() -> Generator[None, None, None]:
    """Translate the errors of GitHub, git, models and sandbox.

    Raises:
        TryLater: the error passes by itself. RunFailed: it does not.
    """
    try:
        yield
    except EnvironmentFailed as error:
        if error.command == "detect":
            raise RunFailed(Failure.NOT_PYTHON, error.command) from error
        raise RunFailed(Failure.ENVIRONMENT, environment_detail(error)) from error
    except CodebaseTooLarge as error:
        raise RunFailed(Failure.REPOSITORY_TOO_LARGE, str(error)) from error
    except tuple(_FINAL) as error:
        raise RunFailed(_failure_for(_FINAL, error)) from error
    except tuple(_TRANSIENT) as error:
        after = getattr(error, "retry_after", None) or DEFAULT_RETRY_SECONDS
        raise TryLater(_failure_for(_TRANSIENT, error), after) from error


def environment_detail(error: EnvironmentFailed) -> str:
    """A line with the command, a line with the error, then the end of the log."""
    command, sentence = (" ".join(text.split()) for text in (error.command, str(error)))
    return f"{command}\n{sentence}\n{error.log[-_LOG_CHARACTERS:].strip()}"


def describe_cause(error: BaseException) -> str:
    """The class and the first words of what is behind `error`, on one line, for the log."""
    cause = error.__cause__ or error
    text = " ".join(str(cause).split())
    return f"{type(cause).__name__}: {text[:_CAUSE_CHARACTERS]}" if text else type(cause).__name__


def _failure_for(table: dict[type[Exception], Failure], error: Exception) -> Failure:
    return next(failure for kind, failure in table.items() if isinstance(error, kind))
