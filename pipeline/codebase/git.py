"""Runs the git binary isolated from the user's configuration."""

import asyncio
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path


async def kill_session(
    process: asyncio.subprocess.Process, *readers: asyncio.Future[bytes]
) -> None:
    """Kill the process and its children, and wait until it has ended.

    `readers` are the tasks that read its output; they are cancelled. What is left of its output is
    read and thrown away: asyncio waits for the end of each pipe, and does not see it while a full
    buffer pauses the reading (https://github.com/python/cpython/issues/119710).
    """
    runs = process.returncode is None
    if runs:
        with suppress(ProcessLookupError):  # it has ended, and the loop does not know yet
            os.killpg(process.pid, signal.SIGKILL)
    for reader in readers:
        reader.cancel()
    if readers:
        await asyncio.wait(readers)
    if runs:
        await process.communicate()


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
    "GIT_NO_LAZY_FETCH": "1",
}
_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "gc.auto=0",
    "maintenance.auto=false",
    # A folder in someone's repository can be laid out as a repository.
    "safe.bareRepository=explicit",
    # A missing object may name a program that fetches it. Calls that need a connection allow it.
    "protocol.allow=never",
)
MOST_SECONDS = 600
"""Processor seconds of one call, unless it says otherwise: git matches patterns and follows deltas
that a repository brings along, and before 2.40 in exponential time."""
PATTERN_SECONDS = 20
"""The same where it only matches a repository's patterns; honest ones take a tenth of one."""
_WALL = 5
"""A call may last so many times its processor seconds: the machine may be busy."""
_WORDS = 4000
"""Characters kept of git's error output: enough for a person, too few to fill a log."""


class CodebaseTooLarge(Exception):
    """A commit exceeds the limits on what is read; `str(error)` is a sentence."""


class GitFailed(Exception):
    """git ended with an unexpected status; `words` is the end of its error output."""

    def __init__(self, command: str, status: int, words: str) -> None:
        super().__init__(f"git {command} ended with status {status}: {words}")
        self.command = command
        self.status = status
        self.words = words


class GitTooSlow(GitFailed):
    """git did not end in its time."""

    def __init__(self, command: str, seconds: int) -> None:
        super().__init__(command, -signal.SIGXCPU, f"it did not end in {seconds} s")


async def git(
    git_dir: Path | None,
    *args: str,
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    config: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
    accept: Sequence[int] = (0,),
    memory: int = 0,
    seconds: int = MOST_SECONDS,
) -> bytes:
    """Run `git *args` and return its standard output.

    git sees neither the caller's environment nor the machine's git configuration; no hook, prompt
    or credential helper runs. `config` holds `name=value` pairs for this call only, `env` further
    variables, `pass_fds` descriptors that git inherits. `git_dir` is None for commands that need no
    repository (`init`, `ls-remote`). `memory` limits the bytes that git may allocate, for data that
    can unpack to more; 0: no limit. `seconds` limits the processor time of each of its processes,
    and five times as much the call. If the call is cancelled, git and all its children are killed.

    Raises:
        GitTooSlow: it did not end in its time.
        GitFailed: the status is not in `accept`.
    """
    process = await _start(git_dir, args, input is not None, env, config, pass_fds, cwd)
    _limit(process, seconds, memory)
    clock = asyncio.timeout(_WALL * seconds)
    try:
        async with clock:
            output, complaint = await process.communicate(input)
    except BaseException:
        await kill_session(process)
        if clock.expired():
            raise GitTooSlow(args[0], seconds) from None
        raise
    _raise_on_failure(args, process, complaint, accept, seconds)
    return output


async def create_bare(place: Path, commit: str = "") -> None:
    """Create an empty bare repository, whose objects have names as long as `commit` (SHA-1).

    Raises:
        GitFailed: it cannot be written.
    """
    form = "sha256" if len(commit) == 64 else "sha1"
    words = ("--quiet", "--bare", "--template=", f"--object-format={form}")
    await git(None, "init", *words, str(place))


def trust_owner_of(repository: Path) -> None:
    """Let git read a repository that another user owns, for the rest of this process.

    git asks for a file: the process at the other end of a fetch gets no setting of ours.
    """
    file = tempfile.NamedTemporaryFile("w", prefix="capuchin-git-", suffix=".conf")  # noqa: SIM115
    quoted = str(repository).replace("\\", "\\\\").replace('"', '\\"')
    file.write("".join(f'[safe]\n\tdirectory = "{quoted}{end}"\n' for end in ("", "/.git")))
    file.flush()
    _trusted.append(file)
    _ENVIRONMENT["GIT_CONFIG_GLOBAL"] = file.name


_trusted: list[object] = []
"""Files that are deleted with the process."""


def _limit(process: asyncio.subprocess.Process, seconds: int, memory: int = 0) -> None:
    with suppress(ProcessLookupError):  # it has already ended
        # SIGXCPU, then SIGKILL
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds + 5))
        if memory:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))


async def read_git_entries(git_dir: Path, *args: str) -> AsyncGenerator[list[bytes], None]:
    """Run `git *args` and yield its NUL-terminated entries in batches, without the NUL.

    The event loop runs between batches. The environment is the same as for `git`. Close the
    generator (`contextlib.aclosing`) to end early.

    Raises:
        GitTooSlow: it did not end in its time.
        GitFailed: git ended with a status other than 0; raised after all its output.
    """
    process = await _start(git_dir, args, False, None, (), (), None)
    _limit(process, MOST_SECONDS)
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.ensure_future(process.stderr.read())
    try:
        rest = b""
        # Bytes of a long listing read at once.
        while data := await asyncio.wait_for(process.stdout.read(256 * 1024), _WALL * MOST_SECONDS):
            *whole, rest = (rest + data).split(b"\0")
            yield whole
            await asyncio.sleep(0)  # data that has already arrived is read without a pause
        words = await complaint
        await process.wait()
    except BaseException as error:
        await kill_session(process, complaint)
        if isinstance(error, TimeoutError):
            raise GitTooSlow(args[0], MOST_SECONDS) from None
        raise
    _raise_on_failure(args, process, words, (0,), MOST_SECONDS)


async def _start(
    git_dir: Path | None,
    args: Sequence[str],
    fed: bool,
    env: Mapping[str, str] | None,
    config: Sequence[str],
    pass_fds: Sequence[int],
    cwd: Path | None,
) -> asyncio.subprocess.Process:
    binary = shutil.which("git") or "/usr/bin/git"
    path = f"{Path(binary).parent}:/usr/local/bin:/usr/bin:/bin"
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            binary,
            *_command(git_dir, config),
            *args,
            stdin=asyncio.subprocess.PIPE if fed else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**_ENVIRONMENT, "PATH": path, **(env or {})},
            # Without a repository argument, git must not find one: its configuration would apply.
            cwd=cwd or (None if git_dir else "/"),
            pass_fds=pass_fds,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio would kill git alone, and wait for ever for children that hold its pipes.
        await asyncio.wait([starting])
        if not starting.cancelled() and starting.exception() is None:
            await kill_session(starting.result())
        raise


def _raise_on_failure(
    args: Sequence[str],
    process: asyncio.subprocess.Process,
    complaint: bytes,
    accept: Sequence[int],
    seconds: int,
) -> None:
    status = process.returncode or 0
    if status == -signal.SIGXCPU:
        raise GitTooSlow(args[0], seconds)
    if status not in accept:
        words = complaint.decode("utf-8", "replace").strip()[-_WORDS:]
        raise GitFailed(args[0] if args else "", status, words)


def _command(git_dir: Path | None, config: Sequence[str]) -> list[str]:
    # Absolute: a call may run in another folder, and the data folder may be a relative path.
    where = [f"--git-dir={git_dir.absolute()}"] if git_dir is not None else []
    settings = [word for pair in (*_CONFIG, *config) for word in ("-c", pair)]
    return [*where, *settings]
