"""Every wall that one change of the source takes down, and the attacks that must then succeed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

INSIDE: Final = "sandbox/supervisor/inside.py"
WORLD: Final = "sandbox/supervisor/world.py"
WATCH: Final = "sandbox/supervisor/watch.py"
CONTAINER: Final = "sandbox/container.py"
PROFILE: Final = "sandbox/image/seccomp.json"
ENTRY: Final = "sandbox/image/entry.py"


@dataclass(frozen=True)
class Wall:
    """One wall, how it is taken down, and who must notice."""

    name: str
    mode: Literal["warm", "cold"]
    changes: tuple[tuple[str, str, str], ...]
    """File, what stands there exactly once or more, what stands there instead."""
    tests: tuple[str, ...]
    """Below `tests/safety`; those of the other mode are left out."""


RIGHTS: Final = ("test_privilege.py::test_it_has_no_right_that_it_could_use_or_get_back",)
CALLS: Final = ("test_privilege.py::test_no_dangerous_system_call_gets_through",)
WRITES: Final = ("test_writing.py::test_no_path_takes_a_write_but_the_three_that_are_its_own",)
# The one that would end by itself.
ZIP_BOMB: Final = "test_resources.py::test_too_much_memory_is_called_that[{}-zip bomb]"
DISKS: Final = ("test_resources.py::test_disks_and_inodes_have_an_end",)
LEFT: Final = (
    "test_processes.py::test_what_one_execution_leaves_in_the_kernel_is_not_there_for_the_next",
)
REACHED: Final = ("test_processes.py::test_the_processes_that_hold_the_walls_cannot_be_reached",)
PROCESSES: Final = ("test_processes.py::test_the_number_of_processes_has_an_end",)
LOOKS: Final = ("test_looking.py::test_proc_and_sys_tell_nothing_of_the_host",)
FILTERS: Final = (
    "test_writing.py::test_filters_hooks_and_configuration_of_the_checkout_run_nowhere",
)
OTHERS: Final = ("test_writing.py::test_other_edits_and_other_tests_are_out_of_reach",)

LOOP: Final = """\
    while child:
        pid, status, _ = os.wait4(-1, 0)
        if pid == child:
            ended = status
            break
"""
ENDLESS: Final = """\
    _, ended, _ = os.wait4(child, 0)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)
"""
PIDS: Final = (CONTAINER, "limits.processes + OWN_PROCESSES", "4096")


def allowed(*names: str) -> tuple[tuple[str, str, str], ...]:
    """The change of the profile that lets these system calls through."""
    more = "".join(f'"{name}", ' for name in names)
    return ((PROFILE, '"accept", "accept4"', f'{more}"accept", "accept4"'),)


WALLS: Final = (
    Wall(
        "network namespace of a world",
        "warm",
        ((INSIDE, "    | kernel.CLONE_NEWNET\n", ""), (WORLD, "    loopback_up()\n", "")),
        LEFT,
    ),
    Wall("ipc namespace", "warm", ((INSIDE, "    | kernel.CLONE_NEWIPC\n", ""),), LEFT),
    Wall(
        "second system-call filter",
        "warm",
        ((INSIDE, "    kernel.install_filter(walls.filter)\n", ""),),
        ("test_privilege.py::test_no_new_namespace_of_any_kind", *CALLS),
    ),
    Wall(
        "capabilities dropped in a world",
        "warm",
        ((INSIDE, "    kernel.drop_capabilities()\n", ""),),
        RIGHTS,
    ),
    Wall(
        "handles closed",
        "warm",
        ((INSIDE, "inheritable=target < ORDERS", "inheritable=True"),),
        REACHED,
    ),
    Wall(
        "number of processes of a world",
        "warm",
        (PIDS, (INSIDE, "walls.processes + 1", "4096")),
        PROCESSES,
    ),
    Wall(
        "size of a file",
        "warm",
        ((INSIDE, "        (resource.RLIMIT_FSIZE, walls.file_bytes),\n", ""),),
        ("test_resources.py::test_a_file_has_a_largest_size",),
    ),
    Wall(
        "size of a world's disk",
        "warm",
        (("sandbox/supervisor/serve.py", "size={setting['disk_mb']}m", "size=2048m"),),
        DISKS,
    ),
    Wall("inodes of /dev/shm", "warm", ((WORLD, "nr_inodes=10000", "nr_inodes=20000"),), DISKS),
    Wall(
        "private /dev/shm",
        "warm",
        ((WORLD, '    mount("tmpfs", "/dev/shm", "tmpfs", NOTHING, SHARED_MEMORY)', "    pass"),),
        DISKS,
    ),
    Wall(
        "limit of output",
        "warm",
        ((WATCH, "                return End.OUTPUT", "                pass"),),
        ("test_resources.py::test_endless_output_is_cut",),
    ),
    Wall(
        "wall clock",
        "warm",
        ((WATCH, "self._begun + self._patience.seconds", "self._begun + 5"),),
        ("test_processes.py::test_ignoring_every_signal_buys_no_time",),
    ),
    Wall(
        "end of a world with its program",
        "warm",
        ((INSIDE, LOOP, ENDLESS),),
        ("test_processes.py::test_daemons_that_hold_the_output_die_with_their_parent",),
    ),
    Wall(
        "edits out of sight",
        "warm",
        ((WORLD, '    mount(OURS, STATE, "none", MS_BIND)\n', ""),),
        OTHERS,
    ),
    Wall(
        "covered folders",
        "warm",
        ((WORLD, "    for path in HIDDEN_FOLDERS:", "    for path in ():"),),
        (*LOOKS, *WRITES),
    ),
    Wall(
        "git of an edit sees no repository",
        "warm",
        (("sandbox/supervisor/edit.py", '    "GIT_DIR": "/nonexistent",\n', ""),),
        FILTERS,
    ),
    Wall("read-only rest", "warm", ((CONTAINER, "read_only=True", "read_only=False"),), WRITES),
    Wall("read-only rest", "cold", ((CONTAINER, "read_only=True", "read_only=False"),), WRITES),
    Wall(
        "memory",
        "cold",
        ((CONTAINER, "limits.memory_mb * 1024 * 1024", "limits.memory_mb * 8192 * 1024"),),
        (ZIP_BOMB.format("cold"),),
    ),
    Wall(
        "memory of a lane",
        "warm",
        ((CONTAINER, "(limits.memory_mb + OWN_MEMORY_MB)", "(limits.memory_mb * 8)"),),
        (ZIP_BOMB.format("warm"),),
    ),
    Wall("number of processes", "cold", (PIDS,), PROCESSES),
    Wall(
        "no network",
        "cold",
        (
            (CONTAINER, 'network_mode="none"', 'network_mode="bridge"'),
            (CONTAINER, "network_disabled=True", "network_disabled=False"),
        ),
        ("test_looking.py::test_no_network_answers",),
    ),
    Wall(
        # Root without a capability could not even make the checkout.
        "not root",
        "cold",
        ((CONTAINER, "user=USER", 'user="0:0"'), (CONTAINER, '["ALL"]', "[]")),
        RIGHTS,
    ),
    Wall("capabilities", "cold", ((CONTAINER, '["ALL"]', "[]"),), RIGHTS),
    Wall("no new privileges", "cold", ((CONTAINER, '"no-new-privileges:true", ', ""),), RIGHTS),
    Wall(
        "process 1 cannot be looked into",
        "cold",
        ((ENTRY, "    set_dumpable(on=False)\n", ""),),
        REACHED,
    ),
    Wall(
        "git sees no repository",
        "cold",
        ((ENTRY, '"GIT_DIR": "/nonexistent", ', ""),),
        FILTERS,
    ),
    Wall("io_uring", "cold", allowed("io_uring_setup"), CALLS),
    Wall("keyring", "cold", allowed("keyctl", "add_key", "request_key"), CALLS),
    Wall("ptrace", "cold", allowed("ptrace"), CALLS),
    Wall("bpf", "cold", allowed("bpf"), CALLS),
    Wall(
        "user namespaces",
        "cold",
        allowed("unshare"),
        ("test_privilege.py::test_no_new_namespace_of_any_kind",),
    ),
)
