"""Runs the git binary: an argument list, an environment of its own, and an error in git's words."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
)
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_WORDS = 4000
"""How many characters of git's complaint are kept: enough for a person, too few to fill a log."""

_READ = 256 * 1024
"""How many bytes of a long listing are taken at once."""


class GitFailed(Exception):
    """git ended with a status that was not expected; `words` is the end of what it complained."""

    def __init__(self, command: str, status: int, words: str) -> None:
        super().__init__(f"git {command} ended with status {status}: {words}")
        self.command = command
        self.status = status
        self.words = words


async def git(
    git_dir: Path | None,
    *args: str,
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    config: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
    accept: Sequence[int] = (0,),
) -> bytes:
    """What `git *args` prints on standard output.

    Nothing of the caller's environment or of the machine's git configuration is seen; no hook,
    prompt or credential helper runs. `config` holds `name=value` pairs for this call alone, `env`
    further variables, `pass_fds` descriptors that git inherits. `git_dir` None is for commands
    that need no repository (`init`, `ls-remote`). When the call is cancelled, git and all that it
    started are killed.

    Raises:
        GitFailed: the status is not in `accept`.
    """
    process = await _start(git_dir, args, input is not None, env, config, pass_fds, cwd)
    try:
        output, complaint = await process.communicate(input)
    except BaseException:
        await _kill(process)
        raise
    _raise_on_failure(args, process, complaint, accept)
    return output


async def read_git_entries(git_dir: Path, *args: str) -> AsyncGenerator[bytes, None]:
    """What `git *args` prints, entry by entry as it comes, each ended by a NUL that is cut off.

    Otherwise as `git`; close the generator (`contextlib.aclosing`) to end early.

    Raises:
        GitFailed: git ended with another status than 0, after what it printed.
    """
    process = await _start(git_dir, args, False, None, (), (), None)
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.ensure_future(process.stderr.read())
    try:
        rest = b""
        while data := await process.stdout.read(_READ):
            *whole, rest = (rest + data).split(b"\0")
            for entry in whole:
                yield entry
        words = await complaint
        await process.wait()
    except BaseException:
        complaint.cancel()
        await _kill(process)
        raise
    _raise_on_failure(args, process, words, (0,))


async def _start(
    git_dir: Path | None,
    args: Sequence[str],
    fed: bool,
    env: Mapping[str, str] | None,
    config: Sequence[str],
    pass_fds: Sequence[int],
    cwd: Path | None,
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *_command(git_dir, config),
        *args,
        stdin=asyncio.subprocess.PIPE if fed else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(env or {}),
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def _raise_on_failure(
    args: Sequence[str],
    process: asyncio.subprocess.Process,
    complaint: bytes,
    accept: Sequence[int],
) -> None:
    status = process.returncode or 0
    if status not in accept:
        words = complaint.decode("utf-8", "replace").strip()[-_WORDS:]
        raise GitFailed(args[0] if args else "", status, words)


def _command(git_dir: Path | None, config: Sequence[str]) -> list[str]:
    where = [f"--git-dir={git_dir}"] if git_dir is not None else []
    settings = [word for pair in (*_CONFIG, *config) for word in ("-c", pair)]
    return [_binary(), *where, *settings]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    path = f"{Path(_binary()).parent}:{_SYSTEM_PATH}"
    return {**_ENVIRONMENT, "PATH": path, **more}


def _binary() -> str:
    return shutil.which("git") or "/usr/bin/git"


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the whole session: git leaves its transport helpers behind otherwise."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        await process.wait()
