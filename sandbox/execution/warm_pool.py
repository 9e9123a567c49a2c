"""The lanes of one open sandbox, and an execution on one of them. Blocking: runs in threads."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sandbox.base import Ending, Execution, PatchRejected
from sandbox.execution.cancellation import Stopped
from sandbox.execution.job import Job
from sandbox.execution.scheduler import Turns
from sandbox.execution.warm_worker import Lane, LaneDied, NoLane
from sandbox.limits import Limits

PATIENCE_SECONDS = 180
"""How much longer than the program's own limit a lane may take before it counts as dead."""
STOP_SECONDS = 5
"""How long a lane may take to kill what is not wanted any more; then it is killed itself."""
CROSS_DEVICE = "cross-device link"
"""In the words for EXDEV of C and Node: perhaps the overlay refused to rename a folder of the
checkout; what failed with them runs again on a copy of it. Who swallows the error is not seen: an
overlay that moves folders (`redirect_dir`) is refused in a user namespace, and to learn of it from
outside, every rename of every program would have to wait for us (seccomp's notifications)."""
FAILED = "failed"
CUT_OFF = {Ending.TIMEOUT, Ending.MEMORY, Ending.OUTPUT, Ending.KILLED}


class Lanes:
    """At most as many containers as executions run at once; opened when first needed."""

    def __init__(
        self, image: str, *, labels: Mapping[str, str], opened: Callable[[], Lane]
    ) -> None:
        """`opened` starts a new one; raises `SandboxUnavailable`."""
        self.image = image
        self.labels = labels
        self._opened = opened
        self._guard = threading.Lock()
        self._idle: list[Lane] = []
        self._made: set[tuple[str, ...]] = set()
        """The edits that some lane was asked to apply."""
        self.turns: Turns[WarmAttempt] = Turns(lambda attempt: self._cost(attempt.edit))

    def take(self, edit: tuple[str, ...]) -> Lane:
        """A lane for one execution: rather one that has the edit at hand.

        Raises:
            SandboxUnavailable: there is no new one to be had.
        """
        with self._guard:
            self._made.add(edit)
            known = [lane for lane in self._idle if edit in lane.edits]
            for lane in known or self._idle:
                self._idle.remove(lane)
                lane.edits.add(edit)
                return lane
        lane = self._opened()
        lane.edits.add(edit)
        return lane

    def give_back(self, lane: Lane) -> None:
        with self._guard:
            self._idle.append(lane)

    def _cost(self, edit: tuple[str, ...]) -> int:
        """0: nothing to make; 1: an edit that no lane has; 2: one that would be made once more."""
        with self._guard:
            if not edit or any(edit in lane.edits for lane in self._idle):
                return 0
            return 2 if edit in self._made else 1

    def close(self) -> None:
        """Those in use are closed by who uses them."""
        with self._guard:
            lanes, self._idle = self._idle, []
        if lanes:
            with ThreadPoolExecutor(len(lanes)) as pool:
                for lane in lanes:
                    pool.submit(lane.close)


class WarmAttempt:
    """One job on one lane. `stop` may be called from another thread."""

    def __init__(self, lanes: Lanes, job: Job, *, limits: Limits) -> None:
        self.edit = tuple(job.diffs)
        self._lanes = lanes
        self._job = job
        self._limits = limits
        self._guard = threading.Lock()
        self._stopped_at: float | None = None
        self._current: tuple[Lane, str] | None = None

    def stop(self) -> None:
        """Make `run` kill the execution and raise `Stopped` at once; the lane lives on."""
        with self._guard:
            self._stopped_at = time.monotonic()
            if self._current is None:
                return
            lane, run = self._current
        try:
            lane.send({"stop": run})
        except LaneDied:
            return  # who waits for the lane hears of it too

    def run(self) -> Execution:
        """Raises `PatchRejected`, `SandboxUnavailable`, and `Stopped` after `stop`."""
        answer = self._answer()
        if answer["end"] == Ending.EXIT and answer["code"] and CROSS_DEVICE in answer["output"]:
            whole = self._answer(whole=True)
            answer = whole if whole["end"] != FAILED else answer
        return execution(answer)

    def _answer(self, *, whole: bool = False) -> dict[str, Any]:
        try:
            return self._once(whole=whole)
        except LaneDied:
            # Nothing of an execution outlives its lane, so that a second one changes nothing.
            try:
                return self._once(whole=whole)
            except LaneDied as error:
                raise NoLane(f"The sandbox container died twice: {error}") from error

    def _once(self, *, whole: bool) -> dict[str, Any]:
        if self._stopped_at is not None:
            raise Stopped
        lane = self._lanes.take(self.edit)
        run = secrets.token_hex(8)
        with self._guard:
            self._current = lane, run
        try:
            answer = lane.ask(
                self._message(run, whole=whole), seconds=self._patience(), stopped=self._is_late
            )
        except BaseException as error:
            lane.close()
            if self._stopped_at is not None:
                raise Stopped from error
            raise
        finally:
            with self._guard:
                self._current = None
        self._lanes.give_back(lane)
        if self._stopped_at is not None:
            raise Stopped
        return answer

    def _message(self, run: str, *, whole: bool) -> dict[str, Any]:
        return {
            "run": run,
            "whole": whole,
            "argv": list(self._job.steps[0]),
            "env": dict(self._job.environment),
            "files": dict(self._job.files),
            "edit": name_of(self._job.diffs),
            "diffs": list(self._job.diffs),
            "seconds": self._limits.seconds,
            "output_kept": self._limits.output_kept_bytes,
            "output_total": self._limits.output_total_bytes,
        }

    def _patience(self) -> float:
        return self._limits.seconds + PATIENCE_SECONDS

    def _is_late(self) -> bool:
        stopped = self._stopped_at
        return stopped is not None and time.monotonic() - stopped > STOP_SECONDS


def execution(answer: Mapping[str, Any]) -> Execution:
    """What a lane's answer says.

    Raises:
        PatchRejected, SandboxUnavailable, Stopped: there was no execution.
    """
    end = str(answer["end"])
    if end == "rejected":
        raise PatchRejected(str(answer["words"]))
    if end == "stopped":
        raise Stopped
    if end not in set(Ending):
        raise NoLane(f"The execution could not be started: {answer['words']}")
    ending = Ending(end)
    return Execution(
        exit_code=None if ending in CUT_OFF else int(answer["code"]),
        output=str(answer["output"]),
        seconds=round(float(answer["seconds"]), 3),
        ending=ending,
        cpu_seconds=round(float(answer["cpu_seconds"]), 3),
        peak_memory_mb=round(int(answer["peak_kb"]) / 1024, 1),
    )


def name_of(diffs: Sequence[str]) -> str:
    """By which a lane knows an edit again; empty for none."""
    if not any(diff.strip() for diff in diffs):
        return ""
    digest = hashlib.sha256()
    for diff in diffs:
        data = diff.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
