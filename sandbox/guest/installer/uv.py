"""Runs uv, with everything on the index as of a date where one is set."""

from __future__ import annotations

import contextlib
import datetime
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence

from sandbox.guest.installer.plan import PYTHON
from sandbox.guest.supervisor.time_limit import LONGEST_PAUSE, OwnTime, Queued

UV = "/opt/tools/uv/bin/uv"
SETUPTOOLS_FOR_UV = datetime.date(2019, 4, 15)
"""uv cannot talk to older ones: they have no `setuptools.build_meta:__legacy__`."""
SETUPTOOLS_FOR_EDITABLE = datetime.date(2022, 9, 30)
"""The first that build editable installs as PEP 660 says; later ones are stricter."""
LONGEST_SHOWN = 2000
CUT = " [...]"


class TookTooLong(Exception):
    """A command did not end in time."""


class Uv:
    """uv in the environment, with the dates that hold for it."""

    def __init__(
        self,
        latest: datetime.date | None,
        variables: Mapping[str, str],
        queued: Callable[[], float] | None = None,
    ) -> None:
        """`queued`: how long processes of the container have waited for the processor."""
        self.latest = latest
        self._queued = queued
        self.later: dict[str, str] = {}
        """Packages of which newer files count, each with its day."""
        self.commands: list[str] = []
        """What installed something, as a person would type it in bash."""
        self._overrides: list[str] = []
        self._own = ""
        self._environment = dict(os.environ)  # noqa: TID251 - the build container's own
        self._environment.update(variables)

    def install(
        self,
        words: Sequence[str],
        *,
        tools: datetime.date | None = SETUPTOOLS_FOR_UV,
        variables: Mapping[str, str] = {},
        seconds: float = 600,
        typed: Sequence[str] = (),
        cwd: str | None = None,
    ) -> tuple[bool, str]:
        """Whether `uv pip install` did, and what it printed.

        `tools` is the day as of which setuptools and wheel count, where that is later than the
        date of everything; None is any day. A person would type `typed` in place of `words`, which
        name files of this container alone.
        """
        dates = self.dates(tools)
        argv = [UV, "pip", "install", "--python", PYTHON, *dates, *self._overrides, *words]
        done, output = self.run(argv, variables=variables, seconds=seconds, cwd=cwd)
        if done:
            self.record(["pip", "install", *dates, *(typed or words)], self._own)
        return done, output

    def record(self, words: Sequence[str], more: str = "") -> None:
        """Keep a command of uv that did its work; `more` is its end, in bash."""
        shown = " ".join(map(shlex.quote, ["uv", *words]))
        if len(shown) > LONGEST_SHOWN - len(more) - len(CUT):
            shown = shown[: LONGEST_SHOWN - len(more) - len(CUT)] + CUT
        self.commands.append(shown + more)

    def keep_own(self, name: str) -> None:
        """Never replace the repository's own package by a release of it, whatever asks for one."""
        line = f'{name} ; python_version < "0"'
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as overrides:
            overrides.write(f"{line}\n")
        self._overrides = ["--overrides", overrides.name]
        self._own = f" --overrides <(echo {shlex.quote(line)})"

    def dates(self, tools: datetime.date | None) -> list[str]:
        """The options that leave out what is too new."""
        words: list[str] = []
        if self.latest:
            words += ["--exclude-newer", self.latest.isoformat()]
        limited = not self.latest and tools and tools != SETUPTOOLS_FOR_UV
        if tools and (limited or (self.latest and self.latest < tools)):
            for name in ("setuptools", "wheel"):
                words += ["--exclude-newer-package", name + "=" + tools.isoformat()]
        for name, day in sorted(self.later.items()):
            words += ["--exclude-newer-package", name + "=" + day]
        return words

    def run(
        self,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str] = {},
        seconds: float = 600,
        cwd: str | None = None,
    ) -> tuple[bool, str]:
        """Whether a command ended well, and what it printed, which is shown as well.

        What it waits for a processor that others use does not count: the limit of the whole build
        is the limit on a busy host.

        Raises:
            TookTooLong: it was killed.
        """
        shown = " ".join(map(shlex.quote, argv))[:LONGEST_SHOWN]
        show_line("$ " + shown)
        late, ended = threading.Event(), threading.Event()
        kept = bytearray()
        with subprocess.Popen(
            argv,
            env={**self._environment, **variables},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:

            def kill_late() -> None:
                spent = OwnTime(Queued(self._queued))
                while not ended.wait(LONGEST_PAUSE):
                    if spent.measure() >= seconds:
                        late.set()
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(process.pid, signal.SIGKILL)
                        return

            watcher = threading.Thread(target=kill_late, daemon=True)
            watcher.start()
            try:
                for line in process.stdout or ():
                    sys.stdout.buffer.write(line)
                    kept += line
                    del kept[:-200_000]
                sys.stdout.flush()
                code = process.wait()
            finally:
                ended.set()
                watcher.join()
        if late.is_set():
            raise TookTooLong(f"`{shown[:200]}` took longer than {seconds / 60:g} minutes.")
        return code == 0, kept.decode("utf-8", "replace")


def show_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
