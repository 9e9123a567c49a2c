"""Every protection that a change of the source removes, and the attacks that must then succeed.

Where two protections cover the same attack, a change removes both: each alone would suffice.
"""

from __future__ import annotations

from typing import Final

from tests.safety.mutation import (
    CALLS,
    CAPTURE,
    CAPTURED,
    CONTAINER,
    CORES,
    DAEMONS,
    DEVICES,
    DIALOGUE,
    DISKS,
    DOCKERFILE,
    DROP,
    ENTRY,
    ENVIRONMENT,
    EVERYTHING,
    FAMILIES,
    FILTER,
    FILTERED,
    FLOOD,
    FORGED,
    GIT_OF_THE_HOST,
    HANDLES,
    HOST_GIT,
    INODES,
    INSIDE,
    LAST_CLOCK,
    LEFT_LINKS,
    LEFT_MUCH,
    LEFT_NAMES,
    LIMITS,
    LINKS,
    LOOKS,
    NAMESPACES,
    NETWORK,
    NO_HANDLER,
    OF_THE_HOST,
    OLD_CALLS,
    OLD_SYSTEM_CALLS,
    READ_ONLY,
    RIGHTS,
    SERVE,
    SHARE,
    SIGNALLED,
    WORLD,
    Protection,
    allowed,
    allowed_in_an_execution,
    given,
)
from tests.safety.mutations_of_containers import FIRST
from tests.safety.mutations_of_doors import BY_EDITS, DOORS

PROTECTIONS: Final = (
    *DOORS,
    *BY_EDITS,
    *FIRST,
    *(
        protection
        for mode in ("warm", "cold")
        for protection in (
            Protection("share of the processors", mode, (CORES,), SHARE),
            Protection(
                "Docker socket",
                mode,
                given(binds='["/var/run/docker.sock:/run/docker.sock"]'),
                OF_THE_HOST,
            ),
            Protection("devices of the host", mode, given(devices='["/dev/kmsg"]'), OF_THE_HOST),
            Protection("environment of the host", mode, (EVERYTHING,), ENVIRONMENT),
            Protection("links out of the tree", mode, (READ_ONLY,), LINKS),
            Protection(
                "size of what a command leaves",
                mode,
                ((CAPTURE, "facts.st_size > left", "facts.st_size > 1 << 60"),),
                (LEFT_MUCH.format(mode),),
            ),
            Protection(
                "names that a command leaves",
                mode,
                ((CAPTURED, '"backslashreplace"', '"replace"'),),
                LEFT_NAMES,
            ),
            Protection(
                "links that a command leaves", mode, ((CAPTURE, '.rstrip("/")', ""),), LEFT_LINKS
            ),
        )
    ),
    Protection(
        "network of a warm container",
        "warm",
        (
            (CONTAINER, 'network_mode="none"', 'network_mode="bridge"'),
            (CONTAINER, "network_disabled=True", "network_disabled=False"),
            (INSIDE, "    | kernel.CLONE_NEWNET\n", ""),
            (WORLD, "    enable_loopback()\n", ""),
        ),
        NETWORK,
    ),
    Protection(
        "families of sockets",
        "warm",
        (*allowed("socket"), (FILTER, "= (1, 2, 10)", "= (1, 2, 10, 16, 17, 38, 40)")),
        FAMILIES,
    ),
    Protection("families of sockets", "cold", allowed("socket"), FAMILIES),
    Protection(
        "no new privileges",
        "warm",
        (
            (CONTAINER, '"no-new-privileges:true", ', ""),
            (INSIDE, "    kernel.set_no_new_privileges()\n", ""),
            # In this order the kernel takes a filter from who could gain privileges.
            (INSIDE, DROP + FILTERED, FILTERED + DROP),
        ),
        RIGHTS,
    ),
    Protection(
        "set-user-id programs",
        "cold",
        ((DOCKERFILE, " -exec chmod a-s {} +", ""),),
        ("test_privilege.py::test_a_set_user_id_program_gives_nothing",),
        layer="RUN chmod u+s /bin/su",
    ),
    Protection(
        "32-bit system calls",
        "warm",
        (
            OLD_CALLS,
            (
                FILTER,
                "if_true=1) + return_instruction(KILL)",
                "if_true=1) + return_instruction(ALLOW)",
            ),
        ),
        OLD_SYSTEM_CALLS,
    ),
    Protection("32-bit system calls", "cold", (OLD_CALLS,), OLD_SYSTEM_CALLS),
    Protection(
        "device nodes",
        "cold",
        ((CONTAINER, "user=USER", 'user="0:0"'), (CONTAINER, '["ALL"]', "[]")),
        DEVICES,
    ),
    Protection(
        "signals to process 1 of an execution",
        "warm",
        ((SERVE, NO_HANDLER, ""),),
        SIGNALLED,
    ),
    Protection(
        "signals to process 1",
        "cold",
        ((ENTRY, NO_HANDLER, ""),),
        SIGNALLED,
    ),
    Protection(
        "masked parts of /proc and /sys",
        "cold",
        ((CONTAINER, "[*HIDDEN_FOLDERS, *HIDDEN_FILES,", "["),),
        LOOKS,
    ),
    Protection(
        "files of /proc out of sight", "warm", ((WORLD, "in HIDDEN_FILES:", "in ():"),), LOOKS
    ),
    Protection(
        "size of the disks",
        "cold",
        ((CONTAINER, "size={limits.disk_mb}m", "size=2048m"),),
        DISKS,
    ),
    Protection(
        "inodes of /dev/shm", "cold", ((CONTAINER, "nr_inodes=10000", "nr_inodes=20000"),), INODES
    ),
    Protection(
        "limit of output",
        "cold",
        ((DIALOGUE, "while self.output.total <= self._max_output:", "while True:"),),
        FLOOD,
    ),
    Protection(
        "wall clock",
        "cold",
        ((DIALOGUE, "self.ready_at + seconds if", "self.ready_at + seconds + 300 if"),),
        LAST_CLOCK,
    ),
    Protection(
        "end of a container with its program",
        "cold",
        ((ENTRY, "os.kill(-1, signal.SIGKILL)", "pass"),),
        DAEMONS,
    ),
    Protection(
        "connection to the host",
        "cold",
        (
            (ENTRY, "stderr=subprocess.STDOUT", "stderr=2"),
            (DIALOGUE, 'fields.get("nonce") != self._nonce', "not fields"),
        ),
        FORGED,
    ),
    Protection(
        "handles and core dumps",
        "warm",
        (
            (
                CONTAINER,
                'Ulimit(name="core", soft=0, hard=0)',
                'Ulimit(name="core", soft=9, hard=9)',
            ),
            (LIMITS, "OPEN_FILES: Final = 4096", "OPEN_FILES: Final = 8192"),
            (INSIDE, "(resource.RLIMIT_CORE, 0),", ""),
        ),
        HANDLES,
    ),
    Protection(
        "handles and core dumps",
        "cold",
        (
            (
                CONTAINER,
                'Ulimit(name="core", soft=0, hard=0)',
                'Ulimit(name="core", soft=9, hard=9)',
            ),
            (LIMITS, "OPEN_FILES: Final = 4096", "OPEN_FILES: Final = 8192"),
        ),
        HANDLES,
    ),
    Protection("io_uring", "warm", allowed_in_an_execution("io_uring_setup"), CALLS),
    Protection(
        "keyring", "warm", allowed_in_an_execution("keyctl", "add_key", "request_key"), CALLS
    ),
    Protection("ptrace", "warm", allowed_in_an_execution("ptrace"), CALLS),
    Protection("bpf", "warm", allowed_in_an_execution("bpf"), CALLS),
    Protection("user namespaces", "warm", allowed_in_an_execution("unshare"), NAMESPACES),
    Protection(
        "secrets of the host in a build",
        "warm",
        (
            (
                "sandbox/environment/build_options.py",
                "found = {**PROGRAM_ENVIRONMENT,",
                'found = {**__import__("os").environ, **PROGRAM_ENVIRONMENT,',
            ),
        ),
        ("test_build_steps.py::test_a_build_step_finds_no_secret",),
    ),
    Protection(
        "builds on loopback alone",
        "warm",
        (
            (
                "sandbox/docker/build_network.py",
                'start({}, "none", program=HOLD',
                "start({}, options.network, program=HOLD",
            ),
        ),
        ("test_build_steps.py::test_a_build_reaches_no_host_private_network_or_metadata",),
    ),
    Protection(
        "private addresses closed to the proxy of builds",
        "warm",
        (
            (
                "sandbox/guest/network/destinations.py",
                "return not any(address in network for network in CLOSED)",
                "return True",
            ),
        ),
        ("test_build_steps.py::test_a_build_reaches_no_host_private_network_or_metadata",),
    ),
    Protection(
        "hooks of a repository on the host",
        "",
        ((HOST_GIT, '    "core.hooksPath=/dev/null",\n', ""),),
        GIT_OF_THE_HOST,
    ),
    Protection(
        "git's settings of the host",
        "",
        (
            (HOST_GIT, '    "GIT_CONFIG_GLOBAL": "/dev/null",\n', ""),
            (HOST_GIT, "{**_ENVIRONMENT,", '{**_ENVIRONMENT, "HOME": os.environ["HOME"],'),
        ),
        GIT_OF_THE_HOST,
    ),
    Protection(
        "environment of git on the host",
        "",
        ((HOST_GIT, "return {**_ENVIRONMENT,", "return {**os.environ, **_ENVIRONMENT,"),),
        GIT_OF_THE_HOST,
    ),
)
