"""The protections of executions and of containers in general; `mutations.py` has the others."""

from __future__ import annotations

from typing import Final

from tests.safety.mutation import (
    CALLS,
    CONTAINER,
    DISKS,
    ENDLESS,
    ENTRY,
    FILTERS,
    INODES,
    INSIDE,
    LEFT,
    LOOKS,
    LOOP,
    MAPS,
    OTHERS,
    PIDS,
    PROCESSES,
    REACHED,
    RIGHTS,
    STUBBORN,
    TIME_LIMIT,
    WATCH,
    WORLD,
    WRITES,
    ZIP_BOMB,
    Protection,
    allowed,
)

FIRST: Final = (
    *(
        Protection(
            "memory of the wrapper",
            mode,
            (
                (
                    "pipeline/regression/guest/wrapper.py",
                    "def main() -> None:\n    _protect_memory()\n",
                    "def main() -> None:\n",
                ),
            ),
            ("test_processes.py::test_tests_cannot_open_the_memory_of_what_reports_their_results",),
        )
        for mode in ("warm", "cold")
    ),
    Protection(
        "network namespace",
        "warm",
        ((INSIDE, "    | kernel.CLONE_NEWNET\n", ""), (WORLD, "    enable_loopback()\n", "")),
        LEFT,
    ),
    Protection("ipc namespace", "warm", ((INSIDE, "    | kernel.CLONE_NEWIPC\n", ""),), LEFT),
    Protection(
        "second system-call filter",
        "warm",
        ((INSIDE, "    kernel.install_filter(limits.filter)\n", ""),),
        ("test_privilege.py::test_no_new_namespace_of_any_kind", *CALLS),
    ),
    Protection(
        "capabilities dropped in an execution",
        "warm",
        ((INSIDE, "    kernel.drop_capabilities()\n", ""),),
        RIGHTS,
    ),
    Protection(
        "handles closed",
        "warm",
        ((INSIDE, "inheritable=target < JOB_INPUT", "inheritable=True"),),
        REACHED,
    ),
    Protection(
        "number of processes of an execution",
        "warm",
        (PIDS, (INSIDE, "limits.processes + 1", "4096")),
        PROCESSES,
    ),
    Protection(
        "size of a file",
        "warm",
        ((INSIDE, "        (resource.RLIMIT_FSIZE, limits.file_bytes),\n", ""),),
        ("test_resources.py::test_a_file_has_a_largest_size",),
    ),
    Protection(
        "size of an execution's disk",
        "warm",
        (("sandbox/guest/supervisor/serve.py", "size={settings['disk_mb']}m", "size=2048m"),),
        DISKS,
    ),
    Protection(
        "inodes of /dev/shm", "warm", ((WORLD, "nr_inodes=10000", "nr_inodes=20000"),), INODES
    ),
    Protection(
        "private /dev/shm",
        "warm",
        (
            (
                WORLD,
                '    mount("tmpfs", "/dev/shm", "tmpfs", NOEXEC_FLAGS, SHARED_MEMORY)',
                "    pass",
            ),
        ),
        INODES,
    ),
    Protection(
        "limit of output",
        "warm",
        ((WATCH, "                return GuestEnding.OUTPUT", "                pass"),),
        ("test_resources.py::test_endless_output_is_cut",),
    ),
    Protection(
        "processor time",
        "warm",
        ((WATCH, "TimeLimit(self._limits.seconds,", "TimeLimit(30,"),),
        ("test_processes.py::test_no_program_gets_more_processor_time_than_its_limit",),
    ),
    Protection(
        "limit of programs that do nothing",
        "warm",
        (
            (TIME_LIMIT, "return IDLE if wall >= self._seconds and not may_go_on else", "return"),
            (TIME_LIMIT, "WALL_MARGIN: Final = 600", "WALL_MARGIN: Final = 10"),
        ),
        STUBBORN,
    ),
    Protection(
        "end of an execution with its program",
        "warm",
        ((INSIDE, LOOP, ENDLESS),),
        ("test_processes.py::test_daemons_that_hold_the_output_die_with_their_parent",),
    ),
    Protection(
        "edits out of sight",
        "warm",
        ((WORLD, '    mount(CAPUCHIN_FOLDER, STATE, "none", MS_BIND)\n', ""),),
        OTHERS,
    ),
    Protection(
        "covered folders",
        "warm",
        ((WORLD, "    for path in HIDDEN_FOLDERS:", "    for path in ():"),),
        (*LOOKS, *WRITES),
    ),
    Protection(
        "git of an edit sees no repository",
        "warm",
        (("sandbox/guest/supervisor/apply_edit.py", '    "GIT_DIR": "/nonexistent",\n', ""),),
        FILTERS,
    ),
    Protection(
        "read-only rest", "warm", ((CONTAINER, "read_only=True", "read_only=False"),), WRITES
    ),
    Protection(
        "read-only rest", "cold", ((CONTAINER, "read_only=True", "read_only=False"),), WRITES
    ),
    Protection(
        "memory",
        "cold",
        ((CONTAINER, "limits.memory_mb * 1024 * 1024", "limits.memory_mb * 8192 * 1024"),),
        (ZIP_BOMB.format("cold"),),
    ),
    Protection(
        "memory of a warm container",
        "warm",
        ((CONTAINER, "(limits.memory_mb + OWN_MEMORY_MB)", "(limits.memory_mb * 8)"),),
        (ZIP_BOMB.format("warm"),),
    ),
    Protection("number of processes", "cold", (PIDS,), PROCESSES),
    Protection(
        "no network",
        "cold",
        ((CONTAINER, '"network_mode": "none"', '"network_mode": "bridge"'),),
        ("test_host_access.py::test_no_network_answers",),
    ),
    Protection(
        # Root without a capability could not even make the checkout.
        "not root",
        "cold",
        ((CONTAINER, "user=USER", 'user="0:0"'), (CONTAINER, '["ALL"]', "[]")),
        RIGHTS,
    ),
    Protection("capabilities", "cold", ((CONTAINER, '["ALL"]', "[]"),), RIGHTS),
    Protection(
        "no new privileges", "cold", ((CONTAINER, '"no-new-privileges:true", ', ""),), RIGHTS
    ),
    Protection(
        "process 1 cannot be inspected",
        "cold",
        ((ENTRY, "    set_dumpable(on=False)\n", ""),),
        (*REACHED, *MAPS),
    ),
    Protection(
        "git sees no repository",
        "cold",
        ((ENTRY, '"GIT_DIR": "/nonexistent", ', ""),),
        FILTERS,
    ),
    Protection("io_uring", "cold", allowed("io_uring_setup"), CALLS),
    Protection("keyring", "cold", allowed("keyctl", "add_key", "request_key"), CALLS),
    Protection("ptrace", "cold", allowed("ptrace"), CALLS),
    Protection("bpf", "cold", allowed("bpf"), CALLS),
    Protection(
        "user namespaces",
        "cold",
        allowed("unshare"),
        ("test_privilege.py::test_no_new_namespace_of_any_kind",),
    ),
)
