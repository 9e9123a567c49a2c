"""Code that looks for the host, the network or the machine."""

import pytest

from tests.support.docker import Execute
from tests.support.own_docker_daemon import OwnDaemon


async def test_proc_and_sys_tell_nothing_of_the_host(execute: Execute) -> None:
    run = await execute("""
import os
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg",
             "/proc/sysrq-trigger", "/proc/1/environ", "/dev/mem", "/dev/kmsg",
             "/sys/kernel/security/lsm", "/sys/firmware/acpi/tables/DSDT", "/etc/shadow",
             "/sys/kernel/debug/tracing", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/iomem",
             "/proc/interrupts", "/proc/key-users", "/proc/pressure/memory"):
    try:
        data = open(path, "rb").read(4096).strip(b"\\0")
        lines = [line for line in data.splitlines() if b"00000000-00000000" not in line]
        if any(lines): print("READ", path, data[:60])
    except OSError: pass
for path in ("/sys/firmware", "/proc/acpi", "/proc/scsi"):
    if os.path.isdir(path) and os.listdir(path): print("LISTED", path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) not in (1, os.getpid()): print("SEES", pid)
""")
    assert run.output == ""


async def test_no_host_path_socket_or_device_is_there(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute("""
import glob, os, stat
found = [p for pattern in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd", "/host",
                           "/root/*", "/home/*/*", "/run/secrets", "/var/lib/docker")
         for p in glob.glob(pattern)]
for folder, _, names in os.walk("/dev"):
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if stat.S_ISBLK(mode): found.append(os.path.join(folder, name))
characters = {n for n in os.listdir("/dev") if stat.S_ISCHR(os.lstat("/dev/" + n).st_mode)}
print(found, characters - {"null", "zero", "full", "random", "urandom", "tty", "console"})
""")
    assert run.output == ("[] {'fuse'}\n" if gvisor else "[] set()\n")  # its own, of nothing


async def test_the_hosts_environment_stays_there(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPUCHIN_CANARY", "should-not-leak")
    run = await execute("""
import os
print(*sorted(os.environ))
try: print(open("/proc/1/environ").read().replace("\\0", ""), end="")
except OSError: pass
""")
    ours = "HOME LANG PATH PYTHONHASHSEED PYTHONUNBUFFERED TZ VIRTUAL_ENV\n"
    assert run.output == ours


@pytest.mark.spine
async def test_no_network_answers(execute: Execute) -> None:
    run = await execute("""
import socket
for family, address in (
    (socket.AF_INET, ("169.254.169.254", 80)), (socket.AF_INET, ("172.17.0.1", 2375)),
    (socket.AF_INET, ("192.0.2.1", 53)), (socket.AF_INET6, ("fd00:ec2::254", 80)),
):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as line:
            line.settimeout(3)
            try: line.connect(address); line.send(b"x"); print("REACHED", address)
            except OSError: pass
try: socket.getaddrinfo("example.org", 80); print("RESOLVED")
except OSError: pass
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
""")
    assert run.output == "['lo']\n"


async def test_only_the_plain_families_of_sockets_open(execute: Execute) -> None:
    run = await execute("""
import socket
opened = set()
for family in range(1, 64):
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind).close(); opened.add(family)
        except OSError: pass
print(sorted(opened))
""")
    assert run.output == "[1, 2, 10]\n"
