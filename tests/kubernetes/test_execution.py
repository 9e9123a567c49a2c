"""The contracts of executions, commands, isolation and limits, held by pods of a real cluster."""

import asyncio

import pytest

from sandbox.errors import SandboxUnavailable
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine
from sandbox.program import python_script
from tests.contracts.sandbox.command_contract import *  # noqa: F403 - the tests themselves
from tests.contracts.sandbox.execution_contract import *  # noqa: F403
from tests.contracts.sandbox.isolation_contract import *  # noqa: F403
from tests.contracts.sandbox.limits_contract import *  # noqa: F403
from tests.kubernetes.cluster import RealCluster
from tests.kubernetes.engine import NAMESPACE
from tests.safety.test_host_access import *  # noqa: F403 - attacks on a pod
from tests.safety.test_privilege import *  # noqa: F403
from tests.safety.test_processes import *  # noqa: F403
from tests.support.docker import Execute


async def test_an_image_that_is_gone_is_a_failure_of_the_sandbox(
    engine: KubernetesEngine, registry: str, cluster: RealCluster
) -> None:
    async with engine.open(f"{registry}/never:made", run_id="test-gone") as sandbox:
        with pytest.raises(SandboxUnavailable, match="ImagePull"):
            await sandbox.run(python_script("print()"))
    async with asyncio.timeout(120):  # its node had nothing to end, but takes its time
        while cluster.read("-n", NAMESPACE, "pods")["items"]:
            await asyncio.sleep(0.5)


async def test_a_pod_sees_no_network_and_no_privilege(execute: Execute) -> None:
    """The pod has a network here; nothing that runs in it can see that."""
    run = await execute("""
import os, socket
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
print(os.getuid(), os.listdir("/sys/class/net"), end=" ")
print(os.path.exists("/var/run/secrets"))
print([name for name in os.environ if name.startswith("KUBERNETES")])
for line in open("/proc/self/status"):
    if line.startswith(("CapEff", "NoNewPrivs")):
        print(line.split()[1])
for port in (80, 443):
    try:
        socket.create_connection(("127.0.0.1", port), 1)
    except OSError as error:
        print("unreachable")
print(open("/proc/net/route").read().count("\\n"))
""")
    expected = "['lo']\n10001 [] False\n[]\n0000000000000000\n1\nunreachable\nunreachable\n1\n"
    assert run.output == expected
