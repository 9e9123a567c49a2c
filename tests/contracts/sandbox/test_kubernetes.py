"""Sandboxes as pods keep the promises of those in containers.

The cluster is a stand-in that runs pods as containers of this machine's Docker; the client, the
attach protocol, the lanes and process 1 are the real ones.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import EnvironmentFailed, PatchRejected, SandboxUnavailable
from sandbox.execution import warm_pool
from sandbox.execution.session import SandboxSession
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine
from sandbox.program import SCRIPT_PATH, Ending, Execution, Limits, Program, python_script
from tests.contracts.sandbox.command_contract import *  # noqa: F403 - the same tests again
from tests.support.data.diffs import added_file
from tests.support.docker import (
    OWNER,
    PACKAGE,
    PACKAGE_FIX,
    Execute,
    OpenSandbox,
    any_engine,
    build_environment,
    containers_of,
    keep_open,
    make_tree,
    wait_until_running,
)
from tests.support.image_registry import local_registry
from tests.support.local_kubernetes import NAMESPACE, LocalCluster, pending
from tests.support.matrix import run_matrix

__all__ = ["any_engine"]


@pytest.fixture(scope="module")
def local() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
async def pods(
    local: LocalCluster, ca_bundle: Path | None, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[KubernetesEngine]:
    made = engine_at(local, tmp_path, ca_bundle)
    yield made
    await made.close()
    assert local.pods == {}


def engine_at(
    local: LocalCluster, folder: Path, ca_bundle: Path | None = None, registry: str = "none.invalid"
) -> KubernetesEngine:
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    # The builder must not take other containers for its own: those of other tests, and those that
    # stand for pods.
    owner, build = f"{OWNER}-builder", BuildOptions(ca_bundle=ca_bundle)
    builder = DockerEngine(DockerOptions(limits=limits, owner=owner, build=build))
    cluster = Cluster(NAMESPACE, local.kubeconfig(folder))
    return KubernetesEngine(builder, cluster, registry=registry, owner=f"{OWNER}-pods")


@pytest.fixture(scope="module")
def open_pods(
    ca_bundle: Path | None, prepared: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenSandbox]:
    """What `sandbox` is a session of. Its cluster is its own: tests count the pods of the other."""
    with LocalCluster() as cluster:
        engine = engine_at(cluster, tmp_path_factory.mktemp("pods"), ca_bundle)
        with keep_open(engine, prepared, limits=engine.limits) as opened:
            yield opened
        assert cluster.pods == {}
        asyncio.run(engine.close())


@pytest.fixture
async def sandbox(open_pods: OpenSandbox) -> AsyncIterator[SandboxSession]:
    """Its pods are those of the tests before."""
    session = open_pods.make_session()
    yield session
    await session.close()


@pytest.fixture
async def own_sandbox(
    pods: KubernetesEngine, prepared: str, run_id: str
) -> AsyncIterator[SandboxSession]:
    """With pods of its own, whose containers `run_id` finds."""
    async with pods.open(prepared, run_id=run_id) as opened:
        yield opened


async def test_every_test_runs_on_every_edit(sandbox: SandboxSession) -> None:
    ask = "from shop import total; print(total(1, 2))"
    tests = [ask, "raise SystemExit(2)"]
    cells = {
        (cell.edit, cell.test): cell.run
        async for cell in run_matrix(sandbox, [(), (PACKAGE_FIX,)], tests)
    }
    seen = {
        at: (run.output, run.exit_code) for at, run in cells.items() if isinstance(run, Execution)
    }
    assert seen == {(0, 0): ("-1\n", 0), (1, 0): ("3\n", 0), (0, 1): ("", 2), (1, 1): ("", 2)}


async def test_the_end_of_an_execution_is_what_it_was(sandbox: SandboxSession) -> None:
    slow = await sandbox.run(python_script("import time; time.sleep(60)", seconds=0.5))
    assert slow.ending is Ending.TIMEOUT
    greedy = await sandbox.run(python_script("x = bytearray(1 << 30)\nprint(len(x))"))
    assert greedy.ending is Ending.MEMORY
    loud = await sandbox.run(python_script("while True: print('x' * 100000)"))
    assert loud.ending is Ending.OUTPUT
    killed = await sandbox.run(python_script("import os; os.kill(os.getpid(), 9)"))
    assert killed.ending is Ending.KILLED
    with pytest.raises(PatchRejected):
        await sandbox.run(python_script("pass", diffs=("nonsense",)))
    assert (await sandbox.run(Program(["echo", "well"]))).output == "well\n"


async def test_a_large_edit_and_a_large_output_get_through(sandbox: SandboxSession) -> None:
    text = "".join(f"{number}\n" for number in range(40_000))
    edits = [added_file("big.txt", text)]
    run = await sandbox.run(Program(["cat", "big.txt"], diffs=edits, output_bytes=1 << 20))
    assert run.output == text


async def test_a_pod_sees_no_network_and_no_privilege(execute: Execute) -> None:
    run = await execute("""
import os, socket
print([line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line])
print(os.getuid(), os.listdir("/sys/class/net"), end=" ")
print(os.path.exists("/var/run/secrets"))
for line in open("/proc/self/status"):
    if line.startswith(("CapEff", "NoNewPrivs")):
        print(line.split()[1])
try:
    socket.create_connection(("169.254.169.254", 80), 1)
except OSError as error:
    print("unreachable")
""")
    assert run.output == "['lo']\n10001 [] False\n0000000000000000\n1\nunreachable\n"


async def test_cancelling_ends_the_execution_and_the_lane_goes_on(
    own_sandbox: SandboxSession,
    local: LocalCluster,
    daemon: docker.APIClient,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A busy machine may take longer to kill it than the pod is given; then that is killed.
    monkeypatch.setattr(warm_pool, "STOP_SECONDS", 600)
    await own_sandbox.run(python_script("pass"))
    before = set(local.pods)
    sleep = python_script("import time; time.sleep(1000)", seconds=600)
    going = asyncio.create_task(own_sandbox.run(sleep))
    await wait_until_running(daemon, run_id, SCRIPT_PATH)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert (await own_sandbox.run(python_script("print(1)"))).output == "1\n"
    assert set(local.pods) == before


async def test_an_execution_whose_pod_is_evicted_runs_in_another(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str
) -> None:
    await own_sandbox.run(python_script("pass"))
    going = asyncio.create_task(
        own_sandbox.run(python_script("import time; time.sleep(3); print('done')"))
    )
    daemon.kill(await wait_until_running(daemon, run_id, SCRIPT_PATH))
    assert (await going).output == "done\n"


async def test_environments_are_pushed_and_run_from_the_registry(
    local: LocalCluster, registry: str, ca_bundle: Path | None, tmp_path: Path, run_id: str
) -> None:
    engine = engine_at(local, tmp_path, ca_bundle, f"{registry}/capuchin")
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path / "tree", PACKAGE))
    )
    assert image.startswith(f"{registry}/capuchin/capuchin-tree@sha256:")
    async with engine.open(image, run_id=run_id) as sandbox:
        assert (
            await sandbox.run(python_script("import shop; print(shop.total(1, 2))"))
        ).output == "-1\n"
    await engine.close()


async def test_a_registry_that_does_not_answer_is_reported(
    pods: KubernetesEngine, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnavailable, match=r"could not be pushed to none\.invalid"):
        await build_environment(pods, EnvironmentRequest(make_tree(tmp_path / "tree", PACKAGE)))


async def test_a_dockerfile_of_the_repository_is_refused_in_a_sentence(
    pods: KubernetesEngine, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path / "tree", {**PACKAGE, "Dockerfile": "FROM capuchin/base"})
    with pytest.raises(EnvironmentFailed, match="Remove `dockerfile`"):
        await build_environment(pods, EnvironmentRequest(tree, dockerfile="Dockerfile"))


async def test_pods_of_runs_that_no_longer_live_are_reaped(
    pods: KubernetesEngine,
    local: LocalCluster,
    prepared: str,
    run_id: str,
    daemon: docker.APIClient,
) -> None:
    opened = pods.open(prepared, run_id=run_id)
    sandbox = await opened.__aenter__()
    await sandbox.run(python_script("pass"))
    assert len(local.pods) == 1
    assert await pods.reap(live_runs=[run_id]) == 0
    assert await pods.reap(live_runs=["another"]) == 1
    assert local.pods == {}
    assert containers_of(daemon, run_id, status="running") == [], "its node has ended it"
    await opened.__aexit__(None, None, None)


async def test_the_check_shows_the_version_and_what_is_not_allowed(
    pods: KubernetesEngine, local: LocalCluster
) -> None:
    assert (await pods.check()).startswith("Kubernetes v1.34.0-local, warm sandboxes as pods")
    granted = local.rules
    local.rules = [rule for rule in granted if rule["resources"] == ["pods"]]
    try:
        with pytest.raises(SandboxUnavailable, match="does not allow us to get pods/attach"):
            await pods.check()
    finally:
        local.rules = granted


async def test_a_full_quota_is_reported_as_that(
    pods: KubernetesEngine, local: LocalCluster, prepared: str
) -> None:
    allowed, local.most_pods = local.most_pods, 0
    try:
        async with pods.open(prepared, run_id="test-quota") as sandbox:
            with pytest.raises(SandboxUnavailable, match=r"403 pods .* exceeded quota") as caught:
                await sandbox.run(python_script("pass"))
    finally:
        local.most_pods = allowed
    assert "rbac.yaml" not in str(caught.value), "the account has its rights"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            pending("cannot load seccomp profile"),
            "CreateContainerError: cannot load seccomp profile",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
async def test_a_pod_that_cannot_start_is_reported_in_the_words_of_the_cluster(
    pods: KubernetesEngine, local: LocalCluster, prepared: str, status: object, words: str
) -> None:
    local.fate = {**status} if isinstance(status, dict) else {}
    try:
        async with pods.open(prepared, run_id="test-fate") as sandbox:
            with pytest.raises(SandboxUnavailable, match=words):
                await sandbox.run(python_script("pass"))
    finally:
        local.fate = {}


async def test_a_token_that_is_not_known_is_reported(local: LocalCluster, tmp_path: Path) -> None:
    cluster = Cluster(NAMESPACE, local.kubeconfig(tmp_path, token="of-somebody-else"))
    with pytest.raises(SandboxUnavailable, match="Unauthorized"):
        cluster.read_version()
    cluster.close()


async def test_a_cluster_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="Set KUBECONFIG"):
        Cluster(NAMESPACE).read_version()
    with pytest.raises(SandboxUnavailable, match="cluster cannot be reached"):
        Cluster(NAMESPACE, tmp_path / "none").read_version()
