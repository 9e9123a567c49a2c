"""What our manifests, permissions and pods are to a real API server, and what it does to them."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from sandbox.engine import EnvironmentRequest
from sandbox.errors import SandboxUnavailable
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.kubernetes_engine import REQUIRED_PERMISSIONS, KubernetesEngine
from sandbox.kubernetes.pod import PodOptions, warm_pod_manifest
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import Limits, python_script
from tests.kubernetes.cluster import RealCluster
from tests.kubernetes.engine import CREATED, NAMESPACE
from tests.support.docker import OWNER, PACKAGE, PACKAGE_FIX, Execute, build_environment, make_tree

WORKER = "--as=system:serviceaccount:capuchin:capuchin-worker"
SECONDS = 120
SPEND_TIME = "import time; print('on', flush=True); time.sleep(600)"


def pods_of(cluster: RealCluster) -> list[dict[str, Any]]:
    return cluster.read("-n", NAMESPACE, "pods")["items"]


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.2)


def test_the_server_takes_every_manifest(
    cluster: RealCluster, shipped: list[dict[str, Any]]
) -> None:
    """Those that sandboxes do not need are only looked at: their images are not here."""
    # Kubernetes 1.20 has this in `policy/v1beta1` only.
    known = [one for one in shipped if one["kind"] != "PodDisruptionBudget"]
    rest = [one for one in known if one["kind"] not in CREATED]
    assert {one["kind"] for one in rest} == {"Deployment", "StatefulSet", "Service"}
    cluster.apply(rest, "--dry-run=server")
    assert cluster.read("-n", NAMESPACE, "networkpolicy", "sealed")["spec"]["policyTypes"] == [
        "Ingress",
        "Egress",
    ]


def test_the_account_of_the_workers_may_do_what_the_engine_needs(
    cluster: RealCluster, account: Path
) -> None:
    ours = Cluster(NAMESPACE, account)
    assert all(ours.is_allowed(*permission) for permission in REQUIRED_PERMISSIONS)
    ours.close()


@pytest.mark.parametrize(
    "forbidden",
    [
        "create pods -n capuchin",
        "list pods -n default",
        "list pods --all-namespaces",
        f"update pods -n {NAMESPACE}",
        f"patch pods -n {NAMESPACE}",
        f"deletecollection pods -n {NAMESPACE}",
        f"watch pods -n {NAMESPACE}",
        f"create pods --subresource=exec -n {NAMESPACE}",
        f"get pods --subresource=log -n {NAMESPACE}",
        f"get secrets -n {NAMESPACE}",
        "get secrets -n capuchin",
        f"get configmaps -n {NAMESPACE}",
        f"delete networkpolicies -n {NAMESPACE}",
        f"patch resourcequotas -n {NAMESPACE}",
        f"create rolebindings -n {NAMESPACE}",
        f"create serviceaccounts --subresource=token -n {NAMESPACE}",
        "get nodes",
        "create namespaces",
    ],
)
def test_the_account_of_the_workers_may_do_nothing_else(
    cluster: RealCluster, forbidden: str
) -> None:
    assert cluster.try_kubectl("auth", "can-i", WORKER, *forbidden.split()).stdout == "no\n"


async def test_the_check_finds_all_that_it_needs(engine: KubernetesEngine) -> None:
    assert (await engine.check()).startswith("Kubernetes v")


async def test_the_check_shows_what_is_not_allowed(
    engine: KubernetesEngine, cluster: RealCluster
) -> None:
    at = ("-n", NAMESPACE, "role", "capuchin-sandboxes")
    rules = cluster.read(*at)["rules"]
    without = [rule for rule in rules if rule["resources"] == ["pods"]]
    try:
        cluster.kubectl("patch", *at, "--type=merge", "-p", json.dumps({"rules": without}))
        with pytest.raises(SandboxUnavailable, match="does not allow us to get pods/attach"):
            await engine.check()
    finally:
        cluster.kubectl("patch", *at, "--type=merge", "-p", json.dumps({"rules": rules}))
    await engine.check()


async def test_an_account_without_the_role_is_told_to_apply_it(
    cluster: RealCluster, tmp_path: Path
) -> None:
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", "default")
    ours = Cluster(NAMESPACE, cluster.kubeconfig("nobody", token))
    with pytest.raises(SandboxUnavailable, match=r"cannot list resource .* Apply deploy/kuber"):
        ours.list_pods("")
    ours.close()
    stranger = Cluster(NAMESPACE, cluster.kubeconfig("stranger", "of-somebody-else"))
    with pytest.raises(SandboxUnavailable, match="Unauthorized"):
        stranger.read_version()
    stranger.close()


def lane(**changes: Any) -> dict[str, Any]:
    """The manifest of a pod of ours, on an image that never starts unless it says otherwise."""
    labels = {LABEL_RUN: "test-lane", LABEL_OWNER: OWNER}
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64, cpus=0.5)
    pod = warm_pod_manifest(
        "registry.k8s.io/pause:3.10", limits=limits, labels=labels, options=PodOptions()
    )
    pod["spec"] |= changes
    return pod


@contextmanager
def quota(cluster: RealCluster, **hard: str) -> Generator[None]:
    at = ("-n", NAMESPACE, "resourcequota", "sandboxes")
    before = cluster.read(*at)["spec"]
    asked = json.dumps({"spec": {"hard": hard}})
    try:
        cluster.kubectl("patch", *at, "--type=merge", "-p", asked)
        yield
    finally:
        cluster.kubectl("patch", *at, "--type=merge", "-p", json.dumps({"spec": before}))


async def test_a_full_quota_is_reported_as_that(
    engine: KubernetesEngine, cluster: RealCluster, prepared: str
) -> None:
    with quota(cluster, pods="0"):
        async with engine.open(prepared, run_id="test-quota") as sandbox:
            with pytest.raises(SandboxUnavailable, match="exceeded quota: sandboxes") as caught:
                await sandbox.run(python_script("pass"))
    assert "rbac.yaml" not in str(caught.value), "the account has its rights"


async def test_a_runtime_class_that_is_not_there_is_reported_as_that(
    cluster: RealCluster, account: Path
) -> None:
    ours = Cluster(NAMESPACE, account)
    with pytest.raises(SandboxUnavailable, match='RuntimeClass "kata" not found') as caught:
        ours.create_pod(lane(runtimeClassName="kata"))
    assert "rbac.yaml" not in str(caught.value)
    ours.close()


def test_a_node_without_our_filter_is_reported(cluster: RealCluster, account: Path) -> None:
    ours = Cluster(NAMESPACE, account)
    pod = lane()
    pod["spec"]["securityContext"]["seccompProfile"]["localhostProfile"] = "capuchin/none.json"
    name = ours.create_pod(pod)
    try:
        with pytest.raises(SandboxUnavailable, match=r"CreateContainerError: .*none\.json"):
            ours.wait_until_running(name)
    finally:
        ours.delete_pod(name)
        ours.close()


async def test_the_pod_is_what_we_asked_for_but_for_what_this_version_does_not_know(
    execute: Execute, cluster: RealCluster
) -> None:
    await execute("pass")
    (pod,) = pods_of(cluster)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    asked = lane()["spec"]
    for key, value in asked["containers"][0].items():
        if key != "image":
            assert contains(container[key], value), key
    dropped = {"hostUsers", "containers", "securityContext", "volumes"}
    assert all(contains(spec[key], asked[key]) for key in asked.keys() - dropped)
    walls = dict(asked["securityContext"])
    walls.pop("appArmorProfile")  # of 1.30
    assert spec["securityContext"] == walls
    assert "hostUsers" not in spec, "of 1.25; pods of this cluster have no user namespace"
    assert {volume["name"] for volume in spec["volumes"]} == {"state", "memory", "scratch"}
    assert pod["status"]["qosClass"] == "Guaranteed"


def contains(found: Any, asked: Any) -> bool:
    """Whether the server kept what was asked; it adds defaults."""
    if isinstance(asked, dict):
        parts = cast(dict[str, Any], asked)
        return all(key in found and contains(found[key], value) for key, value in parts.items())
    return found == asked


async def test_a_tree_is_built_pushed_pulled_and_run_before_and_after_an_edit(
    engine: KubernetesEngine, cluster: RealCluster, registry: str, tmp_path: Path, run_id: str
) -> None:
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path, {**PACKAGE, "README": run_id}))
    )
    assert image.startswith(f"{registry}/capuchin-tree@sha256:")
    ask = "import shop; print(shop.total(1, 2))"
    async with engine.open(image, run_id=run_id) as sandbox:
        before = sandbox.run(python_script(ask))
        after = sandbox.run(python_script(ask, diffs=(PACKAGE_FIX,)))
        assert [(await one).output for one in (before, after)] == ["-1\n", "3\n"]
    assert pods_of(cluster) == []


async def test_two_executions_run_in_two_pods_side_by_side(
    execute: Execute, cluster: RealCluster
) -> None:
    going = [
        asyncio.create_task(execute(f"import time; time.sleep(3); print({n})")) for n in range(2)
    ]
    await wait_until(lambda: len(pods_of(cluster)) == 2)
    assert [(await one).output for one in going] == ["0\n", "1\n"]


async def test_cancelling_ends_the_execution_and_the_pod_goes_on(
    execute: Execute, cluster: RealCluster
) -> None:
    await execute("pass")
    before = [pod["metadata"]["name"] for pod in pods_of(cluster)]
    going = asyncio.create_task(execute(SPEND_TIME))
    await asyncio.sleep(1)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert (await execute("print(1)")).output == "1\n"
    assert [pod["metadata"]["name"] for pod in pods_of(cluster)] == before


async def test_an_execution_whose_pod_is_deleted_runs_in_another(
    execute: Execute, cluster: RealCluster
) -> None:
    await execute("pass")
    going = asyncio.create_task(execute("import time; time.sleep(3); print('done')"))
    await asyncio.sleep(1)
    for pod in pods_of(cluster):
        cluster.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], "--now")
    assert (await going).output == "done\n"


async def test_a_pod_that_lives_too_long_is_ended_by_the_cluster(
    cluster: RealCluster, prepared: str, account: Path
) -> None:
    """Nobody of us is left who could delete it."""
    ours = Cluster(NAMESPACE, account)
    pod = lane(activeDeadlineSeconds=5)
    pod["spec"]["containers"][0] |= {"image": prepared}
    name = ours.create_pod(pod)
    try:
        ours.wait_until_running(name)
        await wait_until(lambda: pods_of(cluster)[0]["status"].get("reason") == "DeadlineExceeded")
        with pytest.raises(SandboxUnavailable, match="DeadlineExceeded"):
            ours.wait_until_running(name)
    finally:
        ours.delete_pod(name)
        ours.close()


WORKER_CODE = """
import asyncio, sys
from pathlib import Path
from sandbox.program import python_script
from tests.kubernetes.engine import make_engine

async def main():
    engine = make_engine(Path(sys.argv[1]), owner=sys.argv[4])
    async with engine.open(sys.argv[2], run_id=sys.argv[3]) as sandbox:
        print((await sandbox.run(python_script("print('ran')"))).output, flush=True)
        await sandbox.run(python_script("import time; time.sleep(600)", seconds=600))

asyncio.run(main())
"""


async def test_what_a_killed_worker_leaves_is_gone_after_a_clean_up(
    engine: KubernetesEngine, cluster: RealCluster, prepared: str, account: Path, run_id: str
) -> None:
    before = await asyncio.to_thread(cluster.containers)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER_CODE, str(account), prepared, run_id, OWNER,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert worker.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await worker.stdout.readline() == b"ran\n"
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    # Process 1 of the pod sees that its worker is gone, and ends what runs.
    await wait_until(lambda: pods_of(cluster)[0]["status"]["phase"] == "Failed")
    assert await engine.reap(live_runs=[run_id]) == 0
    assert len(pods_of(cluster)) == 1
    assert await engine.reap(live_runs=["another"]) == 1
    assert pods_of(cluster) == []
    await wait_until(lambda: set(cluster.containers()) <= set(before))
