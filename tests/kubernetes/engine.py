"""The engine that the tests run in the cluster, and what of our manifests it needs there."""

from pathlib import Path

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.environment.build_options import BuildOptions
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine
from sandbox.program import Limits
from tests.support.docker import OWNER

NAMESPACE = "capuchin-sandboxes"
CREATED = (
    "Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ResourceQuota",
    "ConfigMap", "DaemonSet",
)  # fmt: skip
"""What of `deploy/kubernetes` is needed for sandboxes. The rest is validated, but not started."""


def make_engine(
    account: Path,
    registry: str = "none.invalid",
    ca_bundle: Path | None = None,
    *,
    owner: str = OWNER,
) -> KubernetesEngine:
    # Half a core each, so that two pods fit on a node of two cores.
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64, cpus=0.5)
    builder = DockerEngine(
        DockerOptions(limits=limits, owner=owner, build=BuildOptions(ca_bundle=ca_bundle))
    )
    return KubernetesEngine(builder, Cluster(NAMESPACE, account), registry=registry, owner=owner)
