"""Where git fetches from and pushes to; the token is on no disk and in no process list.

The token is in an anonymous file in memory (memfd_create(2)) that git inherits; an inline
credential helper, which git uses only for this host, prints it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bot.errors import PushRejected, RepositoryEmpty, RepositoryGone
from bot.github.errors import GitHubUnavailable
from bot.settings import git_environment
from pipeline.codebase.git import GitFailed, git

TIMEOUT_SECONDS = 15 * 60.0
"""A fetch or push that takes longer is aborted and retried later."""
_STALL_OPTIONS = ("http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
_GONE = re.compile(
    r"repository .{0,500} not found|returned error: 4(04|10)|not appear to be a git", re.I
)
_NO_BRANCH = re.compile(r"couldn't find remote ref", re.I)
_NO_COMMIT = re.compile(r"not our ref|unadvertised object|remote did not send all", re.I)
_REJECTED = re.compile(
    r"\[(remote )?rejected\]|stale info|fetch first|non-fast-forward|failed to push", re.I
)
_FORBIDDEN = re.compile(r"returned error: 403", re.I)
_TRANSIENT = re.compile(
    r"returned error: (401|403|408|429|5\d\d)|authentication failed"
    r"|could not read (username|password)"
    r"|could not resolve|failed to connect|connection (refused|reset|timed out)|rpc failed"
    r"|early eof|unexpected disconnect|operation too slow|empty reply|hung up|ssl|tls",
    re.I,
)


@dataclass(frozen=True)
class Remote:
    """A repository's address. `token` is called before every command; None for no token."""

    url: str
    """Contains no credential."""
    token: Callable[[], Awaitable[str]] | None = None

    @classmethod
    def on_github(
        cls, github_url: str, full_name: str, token: Callable[[], Awaitable[str]] | None
    ) -> Remote:
        """The repository `owner/name` of the GitHub at `github_url`."""
        return cls(f"{github_url.rstrip('/')}/{full_name}.git", token)

    async def git(self, git_dir: Path | None, *args: str) -> bytes:
        """Run a git command that connects to this remote.

        Raises:
            RepositoryGone, RepositoryEmpty, PushRejected: the remote refused.
            GitHubUnavailable: the remote did not respond, or not in time.
            GitFailed: any other failure, such as a damaged mirror.
        """
        token = await self.token() if self.token else None
        fd = os.memfd_create("credential", os.MFD_CLOEXEC)
        try:
            if token is not None:
                os.write(fd, f"username=x-access-token\npassword={token}\n".encode())
            config = self._config(fd if token is not None else None)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await git(
                    git_dir, *args, env=git_environment(), config=config, pass_fds=(fd,)
                )
        except TimeoutError:
            raise GitHubUnavailable(
                f"git {args[0]}: timed out after {TIMEOUT_SECONDS:.0f} s"
            ) from None
        except GitFailed as failure:
            raise _translate_failure(failure) from None
        finally:
            os.close(fd)

    def _config(self, fd: int | None) -> list[str]:
        parts = urlsplit(self.url)
        config = [
            "protocol.allow=never",
            f"protocol.{parts.scheme}.allow=always",
            "http.followRedirects=false",
            *_STALL_OPTIONS,
        ]
        if fd is not None:
            host = f"{parts.scheme}://{parts.netloc}"
            # /proc/self/fd reopens the file, so that git can read it several times.
            helper = f'!f() {{ if test "$1" = get; then cat /proc/self/fd/{fd}; fi; }}; f'
            config.append(f"credential.{host}.helper={helper}")
        return config


def _translate_failure(failure: GitFailed) -> Exception:
    words, message = failure.words, f"git {failure.command}"
    if _NO_BRANCH.search(words):
        return RepositoryEmpty(message)
    if _NO_COMMIT.search(words) or _GONE.search(words):
        return RepositoryGone(message)
    if _REJECTED.search(words) or (failure.command == "push" and _FORBIDDEN.search(words)):
        return PushRejected(message)
    if _TRANSIENT.search(words):
        return GitHubUnavailable(message)
    return failure
