"""Every wall that a change of the source takes down, and the attacks that must then succeed.

Where two walls stand behind each other, a change takes both: each alone would hold.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final, Literal

from sandbox.supervisor.filter import FORBIDDEN

INSIDE: Final = "sandbox/supervisor/inside.py"
WORLD: Final = "sandbox/supervisor/world.py"
SERVE: Final = "sandbox/supervisor/serve.py"
WATCH: Final = "sandbox/supervisor/watch.py"
FILTER: Final = "sandbox/supervisor/filter.py"
CONTAINER: Final = "sandbox/container.py"
ATTEMPT: Final = "sandbox/attempt.py"
DIALOGUE: Final = "sandbox/dialogue.py"
PROFILE: Final = "sandbox/image/seccomp.json"
ENTRY: Final = "sandbox/image/entry.py"
DOCKERFILE: Final = "sandbox/image/Dockerfile"
HOST_GIT: Final = "pipeline/git.py"

Change = tuple[str, str, str]
"""File, what stands there exactly once or more, what stands there instead."""


@dataclass(frozen=True)
class Wall:
    """One wall, how it is taken down, and who must notice."""

    name: str
    mode: Literal["warm", "cold", ""]
    """How the executions are held that it protects; empty where that says nothing."""
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    """Below `tests/safety`; those of the other mode are left out."""
    layer: str = ""
    """A line of a Dockerfile that does to the finished image what `changes` would to a new one."""


RIGHTS: Final = ("test_privilege.py::test_it_has_no_right_that_it_could_use_or_get_back",)
CALLS: Final = ("test_privilege.py::test_no_dangerous_system_call_gets_through",)
WRITES: Final = ("test_writing.py::test_no_path_takes_a_write_but_the_three_that_are_its_own",)
# The one that would end by itself.
ZIP_BOMB: Final = "test_resources.py::test_too_much_memory_is_called_that[{}-zip bomb]"
DISKS: Final = ("test_resources.py::test_disks_have_an_end",)
INODES: Final = ("test_resources.py::test_inodes_have_an_end",)
LEFT: Final = (
    "test_processes.py::test_what_one_execution_leaves_in_the_kernel_is_not_there_for_the_next",
)
REACHED: Final = ("test_processes.py::test_the_processes_that_hold_the_walls_cannot_be_reached",)
MAPS: Final = ("test_processes.py::test_where_process_1_keeps_what_is_not_told",)
SIGNALLED: Final = ("test_processes.py::test_no_signal_ends_the_processes_that_hold_the_walls",)
PROCESSES: Final = ("test_processes.py::test_the_number_of_processes_has_an_end",)
LOOKS: Final = ("test_looking.py::test_proc_and_sys_tell_nothing_of_the_host",)
FILTERS: Final = (
    "test_writing.py::test_filters_hooks_and_configuration_of_the_checkout_run_nowhere",
)
OTHERS: Final = ("test_writing.py::test_other_edits_and_other_tests_are_out_of_reach",)

NETWORK: Final = ("test_looking.py::test_no_network_answers",)
FAMILIES: Final = ("test_looking.py::test_only_the_plain_families_of_sockets_open",)
OF_THE_HOST: Final = ("test_looking.py::test_no_host_path_socket_or_device_is_there",)
ENVIRONMENT: Final = ("test_looking.py::test_the_hosts_environment_stays_there",)
NAMESPACES: Final = ("test_privilege.py::test_no_new_namespace_of_any_kind",)
OLD_DOOR: Final = ("test_privilege.py::test_the_32_bit_door_is_shut",)
DEVICES: Final = ("test_privilege.py::test_devices_cannot_be_made",)
LINKS: Final = ("test_writing.py::test_links_lead_nowhere",)
SHARE: Final = ("test_resources.py::test_it_gets_no_more_than_its_share_of_the_processors",)
HANDLES: Final = ("test_resources.py::test_handles_and_core_dumps_are_limited",)
FLOOD: Final = ("test_resources.py::test_endless_output_is_cut",)
STUBBORN: Final = ("test_processes.py::test_ignoring_every_signal_buys_no_time",)
DAEMONS: Final = ("test_processes.py::test_daemons_that_hold_the_output_die_with_their_parent",)
FORGED: Final = ("test_processes.py::test_an_end_cannot_be_forged_by_printing_one",)
GIT_OF_THE_HOST: Final = ("test_host_git.py::test_hooks_filters_and_configuration_run_nothing",)

LOOP: Final = """\
    while True:
        pid, ended, _ = os.wait4(-1, 0)
        if pid == child:
            break
"""
ENDLESS: Final = """\
    _, ended, _ = os.wait4(child, 0)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait4(-1, 0)
"""
DROP: Final = "        kernel.drop_capabilities()\n"
FILTERED: Final = "        kernel.install_filter(walls.filter)\n"
LAST_WORD: Final = "    os._exit(code if code >= 0 else 128 - code)\n"
NO_HANDLER: Final = "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
WAIT_FOR_ALL: Final = """\
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
"""
OLD_CALLS: Final = (
    PROFILE,
    '"SCMP_ARCH_X86_64", "subArchitectures": []',
    '"SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]',
)
PIDS: Final = (CONTAINER, "= limits.processes + OWN_PROCESSES,", "= 4096,")


READ_ONLY: Final = (CONTAINER, "read_only=True", "read_only=False")
MEMBER: Final = '"PYTHONUNBUFFERED": "1",\n'
EVERYTHING: Final = (CONTAINER, MEMBER, MEMBER + '    **__import__("os").environ,\n')
CORES: Final = (CONTAINER, "int(limits.cpus * 1_000_000_000)", "0")
NUMBERS: Final = "for number in numbers if number is not None"


def allowed(*names: str) -> tuple[Change, ...]:
    """Let these system calls through the profile of a container."""
    more = "".join(f'"{name}", ' for name in names)
    return ((PROFILE, '"accept", "accept4"', f'{more}"accept", "accept4"'),)


def allowed_in_a_world(*names: str) -> tuple[Change, ...]:
    """Let them through both filters of a world."""
    column = 0 if platform.machine() == "x86_64" else 1
    numbers = tuple(FORBIDDEN[name][column] for name in names)
    return (
        *allowed(*names),
        (FILTER, NUMBERS, f"for number in numbers if number not in {(None, *numbers)}"),
    )


def given(**more: str) -> tuple[Change, ...]:
    """Docker's settings of executions and lanes, with more than they should have."""
    words = "".join(f"{name}={value}, " for name, value in more.items())
    return ((CONTAINER, "        read_only=True,\n", f"        read_only=True, {words}\n"),)


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
        ((INSIDE, "        kernel.install_filter(walls.filter)\n", ""),),
        ("test_privilege.py::test_no_new_namespace_of_any_kind", *CALLS),
    ),
    Wall(
        "capabilities dropped in a world",
        "warm",
        ((INSIDE, "        kernel.drop_capabilities()\n", ""),),
        RIGHTS,
    ),
    Wall(
        "handles closed",
        "warm",
        (
            (INSIDE, "inheritable=target < ORDERS", "inheritable=True"),
            (INSIDE, "        os.closerange(3, 1 << 20)\n", ""),
        ),
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
    Wall("inodes of /dev/shm", "warm", ((WORLD, "nr_inodes=10000", "nr_inodes=20000"),), INODES),
    Wall(
        "private /dev/shm",
        "warm",
        ((WORLD, '    mount("tmpfs", "/dev/shm", "tmpfs", NOTHING, SHARED_MEMORY)', "    pass"),),
        INODES,
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
        ((WATCH, "self._begun + self._patience.seconds", "self._begun + 9"),),
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
        (*REACHED, *MAPS),
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
    *(
        wall
        for mode in ("warm", "cold")
        for wall in (
            Wall("share of the processors", mode, (CORES,), SHARE),
            Wall(
                "Docker socket",
                mode,
                given(binds='["/var/run/docker.sock:/run/docker.sock"]'),
                OF_THE_HOST,
            ),
            Wall("devices of the host", mode, given(devices='["/dev/kmsg"]'), OF_THE_HOST),
            Wall("environment of the host", mode, (EVERYTHING,), ENVIRONMENT),
            Wall("links out of the tree", mode, (READ_ONLY,), LINKS),
        )
    ),
    Wall(
        "network of a lane",
        "warm",
        (
            (CONTAINER, 'network_mode="none"', 'network_mode="bridge"'),
            (CONTAINER, "network_disabled=True", "network_disabled=False"),
            (INSIDE, "    | kernel.CLONE_NEWNET\n", ""),
            (WORLD, "    loopback_up()\n", ""),
        ),
        NETWORK,
    ),
    Wall(
        "families of sockets",
        "warm",
        (*allowed("socket"), (FILTER, "= (1, 2, 10)", "= (1, 2, 10, 16, 17, 38, 40)")),
        FAMILIES,
    ),
    Wall("families of sockets", "cold", allowed("socket"), FAMILIES),
    Wall(
        "no new privileges",
        "warm",
        (
            (CONTAINER, '"no-new-privileges:true", ', ""),
            (INSIDE, "        kernel.no_new_privileges()\n", ""),
            # In this order the kernel takes a filter from who could gain privileges.
            (INSIDE, DROP + FILTERED, FILTERED + DROP),
        ),
        RIGHTS,
    ),
    Wall(
        "set-user-id programs",
        "cold",
        ((DOCKERFILE, " -exec chmod a-s {} +", ""),),
        ("test_privilege.py::test_a_set_user_id_program_gives_nothing",),
        layer="RUN chmod u+s /bin/su",
    ),
    Wall(
        "the 32-bit door",
        "warm",
        (OLD_CALLS, (FILTER, "if_true=1) + answer(KILL)", "if_true=1) + answer(ALLOW)")),
        OLD_DOOR,
    ),
    Wall("the 32-bit door", "cold", (OLD_CALLS,), OLD_DOOR),
    Wall(
        "device nodes",
        "cold",
        ((CONTAINER, "user=USER", 'user="0:0"'), (CONTAINER, '["ALL"]', "[]")),
        DEVICES,
    ),
    Wall(
        "signals to process 1 of a world",
        "warm",
        (
            (INSIDE, "signal.SIGXFSZ, signal.SIGINT)", "signal.SIGXFSZ)"),
            (SERVE, NO_HANDLER, ""),
        ),
        SIGNALLED,
    ),
    Wall(
        "signals to process 1",
        "cold",
        ((ENTRY, NO_HANDLER, ""),),
        SIGNALLED,
    ),
    Wall(
        "masked parts of /proc and /sys",
        "cold",
        ((CONTAINER, "[*HIDDEN_FOLDERS, *HIDDEN_FILES,", "["),),
        LOOKS,
    ),
    Wall("files of /proc out of sight", "warm", ((WORLD, "in HIDDEN_FILES:", "in ():"),), LOOKS),
    Wall(
        "size of the disks",
        "cold",
        ((CONTAINER, "size={limits.disk_mb}m", "size=2048m"),),
        DISKS,
    ),
    Wall(
        "inodes of /dev/shm", "cold", ((CONTAINER, "nr_inodes=10000", "nr_inodes=20000"),), INODES
    ),
    Wall(
        "limit of output",
        "cold",
        ((DIALOGUE, "while self.output.total <= self._most_output:", "while True:"),),
        FLOOD,
    ),
    Wall(
        "wall clock",
        "cold",
        ((DIALOGUE, "self.ready_at + seconds if", "self.ready_at + seconds + 5 if"),),
        STUBBORN,
    ),
    Wall(
        "end of a container with its program",
        "cold",
        ((ENTRY, LAST_WORD, WAIT_FOR_ALL + LAST_WORD),),
        DAEMONS,
    ),
    Wall(
        "line to the host",
        "cold",
        (
            (ENTRY, "stderr=subprocess.STDOUT", "stderr=2"),
            (DIALOGUE, 'fields.get("nonce") != self._nonce', "not fields"),
        ),
        FORGED,
    ),
    Wall(
        "handles and core dumps",
        "warm",
        (
            (
                CONTAINER,
                'Ulimit(name="core", soft=0, hard=0)',
                'Ulimit(name="core", soft=9, hard=9)',
            ),
            (CONTAINER, "OPEN_FILES: Final = 4096", "OPEN_FILES: Final = 8192"),
            (INSIDE, "(resource.RLIMIT_CORE, 0),", ""),
        ),
        HANDLES,
    ),
    Wall(
        "handles and core dumps",
        "cold",
        (
            (
                CONTAINER,
                'Ulimit(name="core", soft=0, hard=0)',
                'Ulimit(name="core", soft=9, hard=9)',
            ),
            (CONTAINER, "OPEN_FILES: Final = 4096", "OPEN_FILES: Final = 8192"),
        ),
        HANDLES,
    ),
    Wall("io_uring", "warm", allowed_in_a_world("io_uring_setup"), CALLS),
    Wall("keyring", "warm", allowed_in_a_world("keyctl", "add_key", "request_key"), CALLS),
    Wall("ptrace", "warm", allowed_in_a_world("ptrace"), CALLS),
    Wall("bpf", "warm", allowed_in_a_world("bpf"), CALLS),
    Wall("user namespaces", "warm", allowed_in_a_world("unshare"), NAMESPACES),
    Wall(
        "secrets of the host in a build",
        "warm",
        (
            (
                "sandbox/build_options.py",
                "found = {**PROGRAM_ENVIRONMENT,",
                'found = {**__import__("os").environ, **PROGRAM_ENVIRONMENT,',
            ),
        ),
        ("test_building.py::test_a_build_step_finds_no_secret",),
    ),
    Wall(
        "metadata address in a build",
        "warm",
        (("sandbox/build_network.py", 'yield f"container:{container}"', "yield network"),),
        ("test_building.py::test_a_build_cannot_reach_the_clouds_metadata",),
    ),
    Wall(
        "hooks of a repository on the host",
        "",
        ((HOST_GIT, '    "core.hooksPath=/dev/null",\n', ""),),
        GIT_OF_THE_HOST,
    ),
    Wall(
        "git's settings of the host",
        "",
        (
            (HOST_GIT, '    "GIT_CONFIG_GLOBAL": "/dev/null",\n', ""),
            (HOST_GIT, "{**_ENVIRONMENT,", '{**_ENVIRONMENT, "HOME": os.environ["HOME"],'),
        ),
        GIT_OF_THE_HOST,
    ),
    Wall(
        "environment of git on the host",
        "",
        ((HOST_GIT, "return {**_ENVIRONMENT,", "return {**os.environ, **_ENVIRONMENT,"),),
        GIT_OF_THE_HOST,
    ),
)
