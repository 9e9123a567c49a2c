"""The exceptions of the GitHub side by who can correct them, and what an error means for a run.

BotError
├── TryLater             nobody: it passes by itself, and the run or command is tried again
├── LeaseLost            nobody: another worker has the run, and this one must stop at once
├── RunEnded             the maintainer
│   ├── RunFailed        the run ended without an answer
│   ├── RunRefused       the run may not work; this does not count as a failure
│   └── SwapRefused      `/capuchin use` cannot replace the edit
├── Superseded           another run, which does what is left to do on a pull request
├── PublishError         the repository's maintainer, who makes its rules
│   ├── PublishRefused   we may open no branch or pull request
│   │   └── PushRejected not this push
│   └── UnfitDiff        not this diff
├── RepositoryError      the repository's owner
│   ├── RepositoryGone
│   └── RepositoryEmpty
├── GitHubError          a call to GitHub failed; its own tree is in `bot.errors`
├── SettingsError        the operator, in `bot.settings`
├── InvalidSignature, MalformedPayload, BodyRefused
│                        the sender of a webhook, in `bot.webhooks.payload` and `bot.server`
├── ArchiveUnavailable   the operator, whose object store fails, in `bot`
├── BundleTooLarge       who downloads a run's bundle, in `bot`
├── UnreadableYaml       the author of `capuchin.yml`, in `bot.repo_config`
└── WrongUsage, CheckFailed, EnvFileError
                         the user of the command line, in `bot.cli` and `capuchin_demo`

`bot.errors` turns the errors of GitHub, git, models and sandbox into `TryLater` or `RunFailed`.
The pipeline and the sandbox have trees of their own (`pipeline.run_errors`, `sandbox.errors`).
"""

from collections.abc import Generator
from contextlib import contextmanager

from bot.data.failure import NO_FACTS, Failure, FailureFacts, PublishProblem, SwapProblem
from bot.data.refusal import Refusal
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.data.types import Reproduction, Selection
from pipeline.models.base import ModelMisconfigured, ModelRefused, ModelUnavailable
from sandbox.errors import EnvironmentFailed, SandboxUnavailable


class BotError(Exception):
    """The root of every exception of the GitHub side, except those of its stand-ins."""


class TryLater(BotError):
    """Something that the run needs does not answer now; always raised, never returned.

    `reason` is the failure to report if it never answers; `after` is the pause in seconds.
    """

    def __init__(self, reason: Failure, after: float) -> None:
        super().__init__(f"{reason.value}; again in {after:.0f} s")
        self.reason = reason
        self.after = after


class LeaseLost(BotError):
    """This worker did not renew the lease in time; another may have the run."""


class RunEnded(BotError):
    """The run is over before it came to a result."""


class RunFailed(RunEnded):
    """The run ended without an answer; `failure` and `facts` are reported to the maintainer."""

    def __init__(self, failure: Failure, facts: FailureFacts = NO_FACTS) -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.facts = facts


class RunRefused(RunEnded):
    """The run may not begin or continue; this does not count as a failure."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal: Refusal = refusal


class SwapRefused(RunEnded):
    """Another edit cannot replace the one in pull request `number`.

    `facts` say why an edit is forbidden, or GitHub does not take `edit`; `test` is the reproduction
    test that fails.
    """

    def __init__(
        self,
        problem: SwapProblem,
        number: int = 0,
        *,
        facts: FailureFacts = NO_FACTS,
        test: Reproduction | None = None,
        edit: Selection | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem: SwapProblem = problem
        self.number = number
        self.facts = facts
        self.test = test
        self.edit = edit


class Superseded(BotError):
    """The pull request was closed or got another edit from us: another run does the rest."""


class PublishError(BotError):
    """The repository does not take what we want to publish."""


class PublishRefused(PublishError):
    """We cannot push a branch or open a pull request; `words` are GitHub's, and untrusted."""

    def __init__(self, problem: PublishProblem, words: str = "") -> None:
        super().__init__(problem)
        self.facts = FailureFacts(problem=problem, words=words[:2000])


class PushRejected(PublishRefused):
    """The remote refused a push: its branch is not where we expected it, or a rule forbids it."""


class UnfitDiff(PublishError):
    """A diff does not apply, or changes what no edit may change: git's own files, or GitHub's."""


class RepositoryError(BotError):
    """The repository has nothing to work on."""


class RepositoryGone(RepositoryError):
    """The remote has no such repository, or no longer the commit that a run began from."""


class RepositoryEmpty(RepositoryError):
    """The repository has no commit on its default branch."""


class GitHubError(BotError):
    """A call to GitHub failed. `str(error)` names the call and the status: never a body or token.

    `words` is GitHub's own message, which is untrusted text; `status` is 0 without an answer.
    `bot.github.refusals` decides which answer is which error.

    GitHubError
    ├── GitHubUnavailable    temporary: 5xx, no network
    │   ├── RateLimited      GitHub wants fewer calls (403, 429, or 200 by GraphQL)
    │   └── WritesSpent      by our own limit, until the next minute or hour
    ├── NotFound             gone, or invisible to this installation (404, 410)
    │   └── NotInstalled     the App is not, or no longer, installed there
    ├── Forbidden            refused for this installation (401, 403)
    │   ├── PermissionMissing    the installation has not accepted a permission
    │   ├── InstallationSuspended    by the owner, or by us
    │   ├── RepositoryArchived   it can only be read
    │   └── PolicyForbids    a list of allowed addresses, or GitHub itself, keeps us out
    ├── Unprocessable        invalid: a duplicate, closed, missing (409, 422)
    └── GitHubMisconfigured  for the operator: wrong App id, private key or clock
    """

    def __init__(self, message: str, *, status: int = 0, words: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.words = words


class GitHubUnavailable(GitHubError):
    """GitHub does not respond. `retry_after` is in seconds; None if GitHub did not specify it."""

    def __init__(
        self, message: str, *, status: int = 0, words: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, words=words)
        self.retry_after = retry_after


class RateLimited(GitHubUnavailable):
    """GitHub answers no more calls of this installation for `retry_after` seconds."""


class WritesSpent(GitHubUnavailable):
    """We have written as much as we may for now; the wait is `retry_after`."""


class NotFound(GitHubError):
    """The object does not exist, or this installation cannot see it."""


class NotInstalled(NotFound):
    """The App is not installed on the repository: removed, renamed, deleted or never installed."""


class Forbidden(GitHubError):
    """GitHub forbids it to this installation."""

    accepted = ""
    """The permissions of which the call needs one, as in `x-accepted-github-permissions`; empty if
    GitHub did not say."""


class PermissionMissing(Forbidden):
    """The installation lacks `permissions`, such as `issues: write`.

    `accept_at` is the page on which an owner accepts them; empty if unknown.
    """

    permissions: tuple[str, ...] = ()
    accept_at = ""


class InstallationSuspended(Forbidden):
    """The App's installation is suspended."""


class RepositoryArchived(Forbidden):
    """The repository is archived, which makes it read-only."""


class PolicyForbids(Forbidden):
    """A rule of the organisation, the enterprise or GitHub itself keeps us out."""


class Unprocessable(GitHubError):
    """GitHub rejects the request: a duplicate, a missing branch, a locked issue."""


class GitHubMisconfigured(GitHubError):
    """GitHub rejects the App's id or private key."""


_MEANINGS: dict[type[Exception], Failure] = {
    RepositoryGone: Failure.REPOSITORY_GONE,
    RepositoryEmpty: Failure.REPOSITORY_EMPTY,
    CodebaseTooLarge: Failure.REPOSITORY_TOO_LARGE,
    PublishRefused: Failure.PUBLISH_REFUSED,
    NotInstalled: Failure.NOT_INSTALLED,
    NotFound: Failure.REPOSITORY_GONE,
    PermissionMissing: Failure.PERMISSION_MISSING,
    InstallationSuspended: Failure.INSTALLATION_SUSPENDED,
    RepositoryArchived: Failure.REPOSITORY_ARCHIVED,
    PolicyForbids: Failure.POLICY_FORBIDS,
    WritesSpent: Failure.WRITES_SPENT,
    RateLimited: Failure.GITHUB_LIMITED,
    GitHubUnavailable: Failure.GITHUB_UNAVAILABLE,
    # Only the operator can repair this; requests wait until then.
    GitHubMisconfigured: Failure.GITHUB_MISCONFIGURED,
    Forbidden: Failure.GITHUB_REFUSED,
    Unprocessable: Failure.GITHUB_REFUSED,
    ModelUnavailable: Failure.MODEL_UNAVAILABLE,
    ModelMisconfigured: Failure.MODEL_MISCONFIGURED,
    ModelRefused: Failure.MODEL_REFUSED,
    SandboxUnavailable: Failure.SANDBOX_UNAVAILABLE,
    EnvironmentFailed: Failure.ENVIRONMENT,
    # A damaged mirror; the next start makes a new one.
    GitFailed: Failure.INTERNAL,
}
"""The first row that fits decides."""


@contextmanager
def translate_errors() -> Generator[None, None, None]:
    """Translate the errors of GitHub, git, models and sandbox.

    Raises:
        TryLater: the error passes by itself. RunFailed: it does not.
    """
    try:
        yield
    except UnfitDiff as error:  # the pipeline rejects such edits, so this is a bug
        raise RunFailed(Failure.INTERNAL) from error
    except EnvironmentFailed as error:
        failure = Failure.NOT_PYTHON if error.command == "detect" else Failure.ENVIRONMENT
        raise RunFailed(failure, _find_facts(error)) from error
    except tuple(_MEANINGS) as error:
        failure = _failure_for(error)
        if failure.waiting:
            raise to_try_later(error) from error
        raise RunFailed(failure, _find_facts(error)) from error


def to_try_later(error: Exception) -> TryLater:
    """The same as a reason to wait: `error` is one that passes by itself."""
    return TryLater(_failure_for(error), getattr(error, "retry_after", None) or 30.0)


def _find_facts(error: Exception) -> FailureFacts:
    match error:
        case PublishRefused():
            return error.facts
        case PermissionMissing():
            return FailureFacts(permissions=error.permissions, accept_at=error.accept_at)
        case GitHubError():
            return FailureFacts(words=error.words)
        case EnvironmentFailed():
            log = error.log[-2000:].strip()
            return FailureFacts(words=str(error), command=error.command, log=log)
        case _:
            return FailureFacts(words=str(error))


def describe_cause(error: BaseException) -> str:
    """The class and the first words of what is behind `error`, on one line, for the log."""
    cause = error.__cause__ or error
    words = getattr(cause, "words", "")
    text = " ".join(f"{cause}{f' ({words})' if words else ''}".split())
    return f"{type(cause).__name__}: {text[:300]}" if text else type(cause).__name__


def _failure_for(error: Exception) -> Failure:
    return next(failure for kind, failure in _MEANINGS.items() if isinstance(error, kind))
