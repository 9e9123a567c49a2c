"""What an answer of GitHub's that is no success means, by REST or GraphQL: one table.

The first row that fits decides. Sentences for people are in `bot.comments.failures`, by the failure
that `bot.errors` gives the error; the log has the call, the status and GitHub's words.

https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api
https://docs.github.com/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from bot.errors import (
    Forbidden,
    GitHubError,
    GitHubUnavailable,
    InstallationSuspended,
    NotFound,
    NotInstalled,
    PermissionMissing,
    PolicyForbids,
    RateLimited,
    RepositoryArchived,
    Unprocessable,
)

WORDS_CHARACTERS: Final = 300
UNSAID_SECONDS: Final = 60.0
"""The least wait that GitHub asks for where a limited answer names none."""


class Answer(NamedTuple):
    status: int
    words: str = ""
    headers: Mapping[str, str] = {}
    """Lower-case names."""


class _Row(NamedTuple):
    statuses: Collection[int]
    words: str
    """A regular expression for a part of the message; empty: any message."""
    error: type[GitHubError]


_ROWS: Final = (
    _Row((403,), r"rate limit", RateLimited),
    # 422 where content was created too fast.
    _Row((403, 422), r"abuse detection|submitted too quickly|blocked from content creation",
         RateLimited),
    _Row((429,), "", RateLimited),
    _Row((408, *range(500, 600)), "", GitHubUnavailable),
    _Row((403, 409, 423), r"locked for migration|being migrated|temporarily", GitHubUnavailable),
    _Row((401, 403), r"installation has been suspended|installation is suspended",
         InstallationSuspended),
    _Row((403,), r"archived", RepositoryArchived),
    _Row((403, 404, 451), r"IP allow list|IP address is not permitted|access blocked|"
         r"SAML|DMCA|polic(y|ies)\b|has been (disabled|blocked)", PolicyForbids),
    _Row((451,), "", PolicyForbids),
    # Two reasons not to create a token, with one status.
    _Row((403, 422), r"permissions? requested (are|is) not granted", PermissionMissing),
    _Row((422,), r"repository that does not exist or is not accessible", NotInstalled),
    _Row((404, 410), "", NotFound),
    _Row((401, 403), "", Forbidden),
)  # fmt: skip

_GRAPHQL_STATUS: Final = {
    "FORBIDDEN": 403,
    "INSUFFICIENT_SCOPES": 403,
    "NOT_FOUND": 404,
    "UNPROCESSABLE": 422,
    "STALE_DATA": 422,
    "RATE_LIMIT": 429,
    "RATE_LIMITED": 429,
}
"""The status that REST gives the same error. Any other passes by itself, such as "Something went
wrong while executing your query"."""


def read_refusal(call: str, answer: Answer) -> GitHubError:
    """The error that an answer means; `call` is its method and path."""
    status, words = answer.status, " ".join(answer.words.split())[:WORDS_CHARACTERS]
    kind = _find_kind(answer)
    message = f"{call}: {status}"
    if issubclass(kind, GitHubUnavailable):
        limited = issubclass(kind, RateLimited)
        after = _read_wait(answer.headers, UNSAID_SECONDS if limited else None)
        message += " (rate limit)" if limited else ""
        return kind(message, status=status, words=words, retry_after=after)
    error = kind(message, status=status, words=words)
    if isinstance(error, Forbidden):
        error.accepted = answer.headers.get("x-accepted-github-permissions", "")
    return error


def read_graphql_errors(
    call: str, errors: Sequence[Mapping[str, Any]], headers: Mapping[str, str]
) -> GitHubError:
    """The error that the `errors` of a GraphQL answer with status 200 mean."""
    first = errors[0]
    extensions = cast("Mapping[str, Any]", first.get("extensions") or {})
    # A query that this GitHub does not understand has a code, and no type.
    unknown = 422 if extensions.get("code") and not first.get("type") else 502
    status = _GRAPHQL_STATUS.get(str(first.get("type")), unknown)
    return read_refusal(call, Answer(status, str(first.get("message") or ""), headers))


def _find_kind(answer: Answer) -> type[GitHubError]:
    left = answer.headers.get("x-ratelimit-remaining")
    if answer.status in (403, 429) and ("retry-after" in answer.headers or left == "0"):
        return RateLimited
    for row in _ROWS:
        if answer.status in row.statuses and re.search(row.words, answer.words, re.IGNORECASE):
            return row.error
    return Unprocessable


def _read_wait(headers: Mapping[str, str], unsaid: float | None) -> float | None:
    """The seconds that GitHub asks to wait for; `unsaid` where it does not say."""
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isdecimal():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        return max(0.0, int(reset) - time.time())
    return unsaid
