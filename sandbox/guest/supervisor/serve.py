"""The lane's process 1: takes one job after another from the host and answers each.

Both ways: 4 bytes of length (big-endian), then a JSON object. The host sends `walls` once, then
`run` (answered when it has ended) and, while one runs, `stop` with its id. Standard input at its
end means that nobody is left to work for: the lane ends, and the kernel with it all that runs.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn

from sandbox.guest.supervisor import kernel
from sandbox.guest.supervisor.apply_edit import REJECTED
from sandbox.guest.supervisor.edit_layers import Delta, Deltas, remove
from sandbox.guest.supervisor.mounts import SCRATCH, Layers
from sandbox.guest.supervisor.process import Job, Place, Walls, start
from sandbox.guest.supervisor.seccomp import program
from sandbox.guest.supervisor.watch import End, Patience, Verdict, Watch, is_memory_short

HOST_GONE: Final = 125
IDLE_SECONDS: Final = 0.005
CHUNK: Final = 64 * 1024
EDIT: Final = Patience(seconds=60, output_kept=4000, output_total=1 << 20)


class Channel:
    """The host, at the other end of standard input and output."""

    def __init__(self) -> None:
        self._received = b""
        self._messages: deque[dict[str, Any]] = deque()
        self._unwanted: set[str] = set()
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    def receive(self, *, when_idle: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """The next message, waited for; `when_idle` is called if it does not come soon."""
        while not self._messages:
            if not select.select([0], [], [], IDLE_SECONDS)[0]:
                when_idle()
                select.select([0], [], [])
            self.take()
        return self._messages.popleft()

    def take(self) -> None:
        """Read what is there without waiting."""
        try:
            data = os.read(0, CHUNK)
        except BlockingIOError:
            return
        if not data:
            os._exit(HOST_GONE)
        self._received += data
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < size:
                return
            message: dict[str, Any] = json.loads(self._received[4:size])
            self._received = self._received[size:]
            if "stop" in message:
                self._unwanted.add(message["stop"])
            else:
                self._messages.append(message)

    def wants(self, run: str) -> bool:
        """Whether the host, after what it says now, still waits for `run`."""
        self.take()
        return run not in self._unwanted

    def done(self, run: str) -> None:
        """`run` has been answered."""
        self._unwanted.discard(run)

    def send(self, **fields: object) -> None:
        """Never waits for a host that is gone."""
        data = json.dumps(fields).encode()
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left:
            try:
                left = left[os.write(1, left) :]
            except BlockingIOError:
                readable, _, _ = select.select([0], [1], [])
                if readable:
                    self.take()


class Lane:
    """What the host may ask for, one thing at a time."""

    def __init__(self, channel: Channel, setting: dict[str, Any]) -> None:
        self._channel = channel
        self._tree = str(setting["tree"])
        self._walls = Walls(
            checkout=setting["checkout"],
            disk=f"size={setting['disk_mb']}m,nr_inodes={setting['inodes']}",
            processes=setting["processes"],
            open_files=setting["open_files"],
            # Twice the disk, so that a full disk is told as one; what it stops is sparse.
            file_bytes=setting["disk_mb"] << 21,
            filter=program(kernel.MACHINE),
        )
        os.mkdir(SCRATCH, 0o700)  # noqa: PTH102
        self._deltas = Deltas()
        self._left: Watch | None = None
        """Of the execution before, answered while the kernel clears its world."""
        self._next: Place | None = None
        """Made while the one before is in use: a world takes longer to make than to enter."""

    def get_ready(self) -> None:
        self._next = start(self._walls)

    def run(self, job: dict[str, Any]) -> None:
        run = str(job["run"])
        if not self._channel.wants(run):
            self._channel.send(run=run, end=End.STOPPED)
            return
        delta, layers = None, [self._tree]
        if job["edit"]:
            delta = self._deltas.find(job["edit"]) or self._edit(run, job)
            if delta is None:
                return
            if delta.is_worth_compiling:
                self._compile(run, job, delta)
                if not self._channel.wants(run):
                    self._channel.send(run=run, end=End.STOPPED)
                    return
            layers.insert(0, delta.layer)
        patience = Patience(job["seconds"], job["output_kept"], job["output_total"])
        below = Layers(layers, whole=bool(job["whole"]))
        asked = Job(below, argv=job["argv"], env=job["env"], files=job["files"])
        verdict = self._watch(run, asked, patience)
        if delta is not None:
            delta.was_run(verdict.cpu_seconds)
        self._channel.send(
            run=run,
            end=verdict.end,
            words=verdict.words,
            code=verdict.code,
            output=verdict.output.text(),
            seconds=verdict.seconds,
            cpu_seconds=verdict.cpu_seconds,
            peak_kb=verdict.peak_kb,
        )

    def _edit(self, run: str, job: dict[str, Any]) -> Delta | None:
        """A new edit; None when the host has been told why there is none."""
        self.leave()
        delta = self._deltas.fresh()
        making = Job(Layers([self._tree], upper=delta.folder), diffs=job["diffs"])
        verdict = self._watch(run, making, EDIT)
        self.leave()
        if verdict.code == 0:
            self._deltas.keep(job["edit"], delta)
            return delta
        remove(delta)
        words = verdict.output.text().strip()
        if verdict.end is End.STOPPED:
            self._channel.send(run=run, end=End.STOPPED)
        elif verdict.code == REJECTED:
            self._channel.send(run=run, end="rejected", words=words)
        else:
            why = verdict.words or f"The edit could not be made ({verdict.end}). {words}"
            self._channel.send(run=run, end=End.FAILED, words=why)
        return None

    def _compile(self, run: str, job: dict[str, Any], delta: Delta) -> None:
        """Once, and of no weight if it fails."""
        self.leave()  # its world may hold the folder that is written to now
        delta.is_compiled = True
        layers = Layers([self._tree], upper=delta.folder)
        self._watch(run, Job(layers, diffs=job["diffs"], compiles=True), EDIT)
        self.leave()

    def _watch(self, run: str, job: Job, patience: Patience) -> Verdict:
        place = self._enter(job)
        before = self._left
        self._left = Watch(place, patience, control=0, wanted=lambda: self._channel.wants(run))
        self.get_ready()
        if before is not None:
            before.leave()
        verdict = self._left.until_the_end()
        if verdict.end is not End.EXIT or is_memory_short():
            self.leave()
        return verdict

    def leave(self) -> None:
        """Wait until nothing is left of the execution before, whose world is empty by now."""
        if self._left is not None:
            left, self._left = self._left, None
            left.leave()

    def _enter(self, job: Job) -> Place:
        waiting, self._next = self._next, None
        if waiting is not None:
            try:
                waiting.give(job)
            except OSError:  # out of memory, it was the first to go
                waiting.clear()
                waiting.close()
            else:
                return waiting
        place = start(self._walls)
        place.give(job)
        return place


def main() -> NoReturn:
    # Process 1 of a namespace ignores every signal that has no handler; Python sets this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kernel.set_dumpable(on=False)
    channel = Channel()
    lane = Lane(channel, channel.receive())
    gc.freeze()
    lane.get_ready()
    while True:
        job = channel.receive(when_idle=lane.leave)
        try:
            lane.run(job)
        except OSError as error:
            channel.send(run=job["run"], end=End.FAILED, words=str(error))
        channel.done(job["run"])
