"""What a protection is, and where protections are in the source."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Final, Literal

from sandbox.guest.supervisor.seccomp import FORBIDDEN

INSIDE: Final = "sandbox/guest/supervisor/process.py"
WORLD: Final = "sandbox/guest/supervisor/mounts.py"
SERVE: Final = "sandbox/guest/supervisor/serve.py"
TIME_LIMIT: Final = "sandbox/guest/supervisor/time_limit.py"
WATCH: Final = "sandbox/guest/supervisor/watch.py"
FILTER: Final = "sandbox/guest/supervisor/seccomp.py"
CONTAINER: Final = "sandbox/docker/container.py"
LAYOUT: Final = "sandbox/layout.py"
LIMITS: Final = "sandbox/limits.py"
ATTEMPT: Final = "sandbox/docker/cold_execution.py"
DIALOGUE: Final = "sandbox/docker/cold_execution.py"
PROFILE: Final = "sandbox/guest/image/seccomp.json"
CAPTURE: Final = "sandbox/guest/supervisor/capture.py"
CAPTURED: Final = "sandbox/execution/jobs.py"
ENTRY: Final = "sandbox/guest/image/entry.py"
DOCKERFILE: Final = "sandbox/guest/image/Dockerfile"
HOST_GIT: Final = "pipeline/codebase/git.py"

Change = tuple[str, str, str]
"""File, a text that it contains, and the replacement."""


@dataclass(frozen=True)
class Protection:
    """One protection, how a change of the source removes it, and which tests must notice."""

    name: str
    mode: Literal["warm", "cold", ""]
    """How the protected executions run; empty for protections on the host."""
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    """Below `tests/safety`, without those of the other mode; or whole paths of tests elsewhere."""
    layer: str = ""
    """A Dockerfile line that changes the finished image as `changes` would change a new one."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether its attacks are tests outside `tests/safety`, which need no prepared image."""
        return self.tests[0].startswith("tests/")


RIGHTS: Final = ("test_privilege.py::test_it_has_no_right_that_it_could_use_or_get_back",)
CALLS: Final = ("test_privilege.py::test_no_dangerous_system_call_gets_through",)
WRITES: Final = ("test_writes.py::test_no_path_takes_a_write_but_the_three_that_are_its_own",)
# The one that would end by itself.
ZIP_BOMB: Final = "test_resources.py::test_too_much_memory_is_called_that[{}-zip bomb]"
DISKS: Final = ("test_resources.py::test_disks_have_an_end",)
INODES: Final = ("test_resources.py::test_inodes_have_an_end",)
LEFT: Final = (
    "test_processes.py::test_what_one_execution_leaves_in_the_kernel_is_not_there_for_the_next",
)
REACHED: Final = ("test_processes.py::test_the_supervising_processes_cannot_be_reached",)
MAPS: Final = ("test_processes.py::test_the_memory_layout_of_process_1_is_hidden",)
SIGNALLED: Final = ("test_processes.py::test_no_signal_ends_the_supervising_processes",)
PROCESSES: Final = ("test_processes.py::test_the_number_of_processes_has_an_end",)
LOOKS: Final = ("test_host_access.py::test_proc_and_sys_tell_nothing_of_the_host",)
FILTERS: Final = (
    "test_writes.py::test_filters_hooks_and_configuration_of_the_checkout_run_nowhere",
)
OTHERS: Final = ("test_writes.py::test_other_edits_and_other_tests_are_out_of_reach",)

NETWORK: Final = ("test_host_access.py::test_no_network_answers",)
FAMILIES: Final = ("test_host_access.py::test_only_the_plain_families_of_sockets_open",)
OF_THE_HOST: Final = ("test_host_access.py::test_no_host_path_socket_or_device_is_there",)
ENVIRONMENT: Final = ("test_host_access.py::test_the_hosts_environment_stays_there",)
NAMESPACES: Final = ("test_privilege.py::test_no_new_namespace_of_any_kind",)
OLD_SYSTEM_CALLS: Final = ("test_privilege.py::test_32_bit_system_calls_are_refused",)
DEVICES: Final = ("test_privilege.py::test_devices_cannot_be_made",)
LINKS: Final = ("test_writes.py::test_links_lead_nowhere",)
LEFT_LINKS: Final = ("test_commands.py::test_links_are_read_and_never_followed",)
LEFT_NAMES: Final = (
    "test_commands.py::test_names_that_are_not_text_arrive_as_names_that_no_edit_may_have",
)
LEFT_MUCH: Final = (
    "test_commands.py::"
    "test_a_checkout_that_cannot_be_read_within_the_limits_is_left_alone[{}-sparse]"
)
SHARE: Final = ("test_resources.py::test_it_gets_no_more_than_its_share_of_the_processors",)
HANDLES: Final = ("test_resources.py::test_handles_and_core_dumps_are_limited",)
FLOOD: Final = ("test_resources.py::test_endless_output_is_cut",)
STUBBORN: Final = ("test_processes.py::test_ignoring_every_signal_buys_no_time",)
LAST_CLOCK: Final = ("test_processes.py::test_the_host_ends_what_the_container_does_not",)
DAEMONS: Final = ("test_processes.py::test_daemons_that_hold_the_output_die_with_their_parent",)
FORGED: Final = ("test_processes.py::test_an_end_cannot_be_forged_by_printing_one",)
GIT_OF_THE_HOST: Final = ("test_host_git.py::test_hooks_filters_and_configuration_run_nothing",)

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
DROP: Final = "    kernel.drop_capabilities()\n"
FILTERED: Final = "    kernel.install_filter(limits.filter)\n"
NO_HANDLER: Final = "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
OLD_CALLS: Final = (
    PROFILE,
    '"SCMP_ARCH_X86_64", "subArchitectures": []',
    '"SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]',
)
PIDS: Final = (CONTAINER, "= limits.processes + OWN_PROCESSES,", "= 4096,")


READ_ONLY: Final = (CONTAINER, "read_only=True", "read_only=False")
MEMBER: Final = '"PYTHONUNBUFFERED": "1",\n'
EVERYTHING: Final = (LAYOUT, MEMBER, MEMBER + '    **__import__("os").environ,\n')
CORES: Final = (CONTAINER, "int(limits.cpus * 1_000_000_000)", "0")
NUMBERS: Final = "for number in numbers if number is not None"


def allowed(*names: str) -> tuple[Change, ...]:
    """Allow these system calls in the profile of a container."""
    more = "".join(f'"{name}", ' for name in names)
    return ((PROFILE, '"accept", "accept4"', f'{more}"accept", "accept4"'),)


def allowed_in_an_execution(*names: str) -> tuple[Change, ...]:
    """Allow them in both filters of a warm execution."""
    column = 0 if platform.machine() == "x86_64" else 1
    numbers = tuple(FORBIDDEN[name][column] for name in names)
    return (
        *allowed(*names),
        (FILTER, NUMBERS, f"for number in numbers if number not in {(None, *numbers)}"),
    )


def given(**more: str) -> tuple[Change, ...]:
    """Give containers of executions more settings than they should have."""
    words = "".join(f"{name}={value}, " for name, value in more.items())
    return ((CONTAINER, "        read_only=True,\n", f"        read_only=True, {words}\n"),)
