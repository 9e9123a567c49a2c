"""A real Kubernetes of one node on this machine: etcd, API server, controllers, scheduler, kubelet
and a containerd of its own. `deploy/kubernetes-build.sh` makes its programs; it needs root.

Version 1.20 of 2021, the newest that Debian has the whole source of. It drops what it does not know
from the manifests of sandboxes (`hostUsers`, `appArmorProfile`) without a word, and its network
plugin enforces no network policy. So what it shows is scheduling, admission, permissions, images,
the attach protocol and the life of real pods, not user namespaces of pods and sealed networks.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import trustme
import yaml

from capuchin_demo.environment import find_free_port
from tests.kubernetes.images import write_image
from tests.kubernetes.namespaces import Namespaces

DEPLOY: Final = Path(__file__).parents[2] / "deploy/kubernetes"
NODE: Final = "127.0.0.1"
"""Also the node's name, so that the API server finds its kubelet."""
ADMIN: Final = "token-of-the-administrator"
CONTAINERD: Final = "/run/containerd/containerd.sock"
GATES: Final = "ProcMountType=true"
"""Needed for `procMount: Unmasked`, which 1.33 has by itself."""
KUBELET: Final[dict[str, Any]] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": NODE,
    "healthzPort": 0,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    "makeIPTablesUtilChains": False,
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "50Mi"},
    "featureGates": {"ProcMountType": True, "SizeMemoryBackedVolumes": True},
}


class RealCluster:
    """`with RealCluster(programs, folder) as cluster`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """`programs` is what `deploy/kubernetes-build.sh` filled."""
        self.inside = Namespaces(folder)
        self._programs = programs.resolve()
        self._folder = folder
        self._url = f"https://{NODE}:{find_free_port()}"

    def __enter__(self) -> "RealCluster":
        self.inside.__enter__()
        try:
            self._start_server()
            self._start_node()
        except BaseException:
            self.inside.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.inside.__exit__(kind, value, traceback)

    def kubeconfig(self, name: str, token: str) -> Path:
        """A new file that connects with `token`."""
        path = self._folder / f"{name}.kubeconfig"
        named = {"server": self._url, "certificate-authority": str(self._folder / "ca.pem")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": named}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "real", "user": name}}],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def kubectl(self, *words: str, stdin: object = None) -> str:
        """What the administrator's kubectl prints; `stdin` is given to it as JSON."""
        done = self.try_kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def try_kubectl(self, *words: str, stdin: object = None) -> subprocess.CompletedProcess[str]:
        kubectl = Path(sys.executable).with_name("kubectl")
        argv = [str(kubectl), f"--kubeconfig={self._folder / 'admin.kubeconfig'}"]
        argv += [f"--cache-dir={self._folder / 'kubectl'}", *words]
        given = None if stdin is None else json.dumps(stdin)
        return subprocess.run(argv, input=given, capture_output=True, text=True)

    def read(self, *words: str) -> Any:
        """What `kubectl get` finds."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, documents: Sequence[dict[str, Any]], *options: str) -> None:
        """As `kubectl apply`, but the manifests are for a newer version than this one."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "--validate=false", "-f", "-", *options, stdin=listed)

    def import_image(self, archive: Path) -> None:
        """Give the node the image in the form of `docker save`."""
        self.inside.run(
            ["ctr", f"--address={CONTAINERD}", "-n=k8s.io", "images", "import", archive]
        )

    def containers(self) -> list[str]:
        """What containerd runs: pods and their pause containers."""
        listed = self.inside.run(
            ["ctr", f"--address={CONTAINERD}", "-n=k8s.io", "containers", "list", "--quiet"]
        )
        return listed.split()

    def _program(self, name: str) -> Path:
        return self._programs / "bin" / name

    def _start_server(self) -> None:
        here, start = self._folder, self.inside.start
        etcd = f"http://{NODE}:{find_free_port()}"
        peers = f"http://{NODE}:{find_free_port()}"
        start(
            "etcd",
            [
                self._program("etcd"), f"--data-dir={here / 'etcd'}", "--unsafe-no-fsync",
                f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
            ],
        )  # fmt: skip
        subprocess.run(["openssl", "genrsa", "-out", here / "accounts.key", "2048"], check=True,
                       capture_output=True)  # fmt: skip
        authority = trustme.CA()
        authority.cert_pem.write_to_path(here / "ca.pem")
        server = authority.issue_cert(NODE)
        server.private_key_pem.write_to_path(here / "server.key")
        for part in server.cert_chain_pems:
            part.write_to_path(here / "server.pem", append=True)
        (here / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')
        admin = self.kubeconfig("admin", ADMIN)
        start(
            "kube-apiserver",
            [
                self._program("kube-apiserver"), f"--etcd-servers={etcd}",
                f"--bind-address={NODE}", f"--secure-port={self._url.rpartition(':')[2]}",
                # It must not be this machine's loopback; nobody uses it.
                "--advertise-address=192.0.2.1", "--insecure-port=0",
                f"--tls-cert-file={here / 'server.pem'}",
                f"--tls-private-key-file={here / 'server.key'}",
                f"--cert-dir={here / 'certificates'}",
                f"--service-account-key-file={here / 'accounts.key'}",
                f"--service-account-signing-key-file={here / 'accounts.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.96.0.0/24",
                f"--token-auth-file={here / 'tokens.csv'}", "--authorization-mode=RBAC",
                "--allow-privileged", f"--feature-gates={GATES}",
            ],
        )  # fmt: skip
        self._wait_until("kube-apiserver", "get", "--raw=/readyz")
        # The flags of the two programs beside it that have no port of theirs to be asked on.
        common = [f"--kubeconfig={admin}", "--leader-elect=false", "--port=0", "--secure-port=0"]
        start(
            "kube-controller-manager",
            [
                self._program("kube-controller-manager"), *common,
                f"--service-account-private-key-file={here / 'accounts.key'}",
                f"--root-ca-file={here / 'ca.pem'}",
            ],
        )  # fmt: skip
        start("kube-scheduler", [self._program("kube-scheduler"), *common])
        self._wait_until("kube-controller-manager", "get", "serviceaccount", "default")

    def _start_node(self) -> None:
        here = self._folder
        (here / "net").mkdir()
        (here / "net/10-pods.conflist").write_text(json.dumps(pod_network(here)))
        (here / "containerd.toml").write_text(
            containerd_config(here, plugins=self._programs / "cni")
        )
        self.inside.start("containerd", ["containerd", f"--config={here / 'containerd.toml'}"])
        answers = ["ctr", f"--address={CONTAINERD}", "version"]
        self.inside.wait_until("containerd", answers)
        for name in ("registry.k8s.io/pause:3.10", "docker.io/library/busybox:1.36"):
            self._import_busybox(name)
        cgroup = {"cgroupRoot": f"/{self.inside.cgroups.name}", "port": find_free_port()}
        (here / "kubelet.yaml").write_text(json.dumps(KUBELET | cgroup))
        self.inside.start(
            "kubelet",
            [
                self._program("kubelet"), f"--config={here / 'kubelet.yaml'}",
                f"--kubeconfig={here / 'admin.kubeconfig'}", "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{CONTAINERD}",
                f"--hostname-override={NODE}", f"--cert-dir={here / 'certificates'}",
            ],
        )  # fmt: skip
        self._wait_until("kubelet", "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=5s")

    def _import_busybox(self, name: str) -> None:
        """The images that our manifests name come from registries; here busybox stands for each."""
        files = {f"bin/{applet}": self._program("busybox") for applet in ("busybox", "sh", "cp")}
        archive = self._folder / "image.tar"
        write_image(archive, name, files, ["/bin/busybox", "sleep", "1000000"])
        self.import_image(archive)
        archive.unlink()

    def _wait_until(self, name: str, *words: str) -> None:
        deadline = time.monotonic() + 240
        while (answer := self.try_kubectl(*words)).returncode:
            self.inside.assert_alive(name)
            reason = f"{name} is not ready: {answer.stderr}\n{self.inside.log(name)}"
            assert time.monotonic() < deadline, reason
            time.sleep(0.2)


def pod_network(folder: Path) -> dict[str, Any]:
    """A network that leads nowhere: a cable from each pod to the node, which goes with the pod."""
    addresses = {"type": "host-local", "subnet": "198.18.77.0/24", "dataDir": str(folder / "ipam")}
    cable = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [cable]}


def containerd_config(folder: Path, *, plugins: Path) -> str:
    return f"""\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10"
restrict_oom_score_adj = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/net"
"""
