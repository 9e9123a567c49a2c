"""`--kubernetes FOLDER`: the programs of a cluster; the tests that need one are skipped without."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.kubernetes.kubernetes_engine import KubernetesEngine
from tests.kubernetes.cluster import RealCluster
from tests.kubernetes.engine import CREATED, NAMESPACE, make_engine
from tests.support.docker import ca_bundle, execute, prepare_package_image, run_id
from tests.support.image_registry import local_registry
from tests.support.manifests import render

__all__ = ["ca_bundle", "execute", "run_id"]

CONTRACTS = ("command", "execution", "isolation", "limits")

ATTACKS = ("host_access", "privilege", "processes")

pytest.register_assert_rewrite(
    *(f"tests.contracts.sandbox.{name}_contract" for name in CONTRACTS),
    *(f"tests.safety.test_{name}" for name in ATTACKS),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubernetes", type=Path, help="what deploy/kubernetes-build.sh built")


@pytest.fixture(scope="session")
def gvisor() -> None:
    """Pods run under the node's own kernel."""


@pytest.fixture(scope="session")
def mode() -> ConfiguredMode:
    return "warm"


@pytest.fixture(scope="session")
def shipped() -> list[dict[str, Any]]:
    """What `kubectl apply -k deploy/kubernetes` would send."""
    return render()


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Path:
    """What `deploy/kubernetes-build.sh` filled."""
    given: Path | None = request.config.getoption("--kubernetes", None)
    if given is None:
        pytest.skip("needs --kubernetes FOLDER; `make test-kubernetes` builds one")
    return given


@pytest.fixture(scope="session")
def cluster(
    programs: Path, tmp_path_factory: pytest.TempPathFactory, shipped: list[dict[str, Any]]
) -> Iterator[RealCluster]:
    """A cluster to which our manifests were applied, as far as sandboxes need them."""
    with RealCluster(programs, tmp_path_factory.mktemp("cluster")) as made:
        made.apply([one for one in shipped if one["kind"] == "Namespace"])
        made.apply([one for one in shipped if one["kind"] in CREATED])
        made.kubectl(
            "-n=capuchin", "rollout", "status", "daemonset/capuchin-seccomp", "--timeout=120s"
        )
        yield made


@pytest.fixture(scope="session")
def account(cluster: RealCluster) -> Path:
    """A kubeconfig of the service account of the workers, and of no other right."""
    token = cluster.kubectl("-n=capuchin", "create", "token", "capuchin-worker")
    return cluster.kubeconfig("worker", token)


@pytest.fixture(scope="session")
def registry(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """From where the node pulls what the engine pushes."""
    program = programs / "bin/docker-registry"
    with local_registry(tmp_path_factory.mktemp("registry"), program) as address:
        yield f"{address}/capuchin"


@pytest.fixture(scope="session")
def engine(account: Path, registry: str, ca_bundle: Path | None) -> Iterator[KubernetesEngine]:
    made = make_engine(account, registry, ca_bundle)
    yield made
    asyncio.run(made.close())


@pytest.fixture(scope="session")
def prepared(engine: KubernetesEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of `PACKAGE`, in the registry."""
    return asyncio.run(prepare_package_image(engine, tmp_path_factory.mktemp("package")))


@pytest.fixture
async def sandbox(
    engine: KubernetesEngine, prepared: str, run_id: str, cluster: RealCluster
) -> AsyncIterator[SandboxSession]:
    """A sandbox on `PACKAGE`; its test fails if it leaves a pod behind."""
    async with engine.open(prepared, run_id=run_id) as opened:
        yield opened
    assert cluster.read("-n", NAMESPACE, "pods")["items"] == []
