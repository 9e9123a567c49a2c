"""The pod of a warm container.

`python -m sandbox.kubernetes.pod` prints its seccomp profile, which `deploy/kubernetes/lane.json`
holds for the nodes.
"""

import hashlib
import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sandbox.docker.container import OWN_MEMORY_MB, SUPERVISOR_CODE, seccomp_profile, warm_profile
from sandbox.guest.supervisor.mounts import STATE
from sandbox.layout import LABEL_OWNER, LABEL_RUN, UID
from sandbox.program import Limits

CONTAINER_NAME: Final = "lane"
OWNER_LABEL: Final = "capuchin.dev/owner"
SECCOMP_PROFILE: Final = "capuchin/lane.json"
"""Below the kubelet's `seccomp` folder; `deploy/kubernetes` puts it there."""
GRACE_SECONDS: Final = 1
"""The least for which a cluster keeps a deleted pod until its node has ended it."""


@dataclass(frozen=True)
class PodOptions:
    """What the operator decides about the pods of sandboxes."""

    runtime_class: str = ""
    """For example `gvisor` or `kata`; empty is the cluster's default."""
    longest_seconds: int = 6 * 3600
    """The cluster ends a pod that lives longer, even if we no longer run."""


def warm_pod_manifest(
    image: str, *, limits: Limits, labels: Mapping[str, str], options: PodOptions
) -> dict[str, Any]:
    """The manifest of one warm pod. Its limits are those of one execution.

    It has a user namespace of its own (`hostUsers: false`), which Kubernetes demands of a pod with
    an unmasked /proc (`procMount: Unmasked`); an execution needs that to mount a /proc of its own
    (https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/).
    """
    memory = f"{limits.memory_mb + OWN_MEMORY_MB}Mi"
    resources = {"cpu": f"{round(limits.cpus * 1000)}m", "memory": memory}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostUsers": False,
        "hostname": "sandbox",
        "dnsPolicy": "None",
        # Kubernetes requires an address; nothing listens there, and no packet leaves the pod.
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "activeDeadlineSeconds": options.longest_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "Localhost", "localhostProfile": SECCOMP_PROFILE},
            # The default profile forbids the mounts of an execution.
            "appArmorProfile": {"type": "Unconfined"},
        },
        "containers": [
            {
                "name": CONTAINER_NAME,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-I", "-S", "-c", SUPERVISOR_CODE],
                "workingDir": "/",
                "stdin": True,
                "stdinOnce": True,
                "resources": {"limits": resources, "requests": resources},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "procMount": "Unmasked",
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "state", "mountPath": STATE},
                    {"name": "memory", "mountPath": "/dev/shm"},  # noqa: S108
                    {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
                ],
            }
        ],
        "volumes": [
            _memory_volume("state", f"{limits.disk_mb}Mi"),
            _memory_volume("memory", "64Mi"),
            _memory_volume("scratch", "1Mi"),
        ],
    }
    if options.runtime_class:
        spec["runtimeClassName"] = options.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"capuchin-lane-{secrets.token_hex(8)}",
            "labels": {
                # `deploy/kubernetes` has a network policy for it: no traffic either way.
                "app.kubernetes.io/name": "capuchin-sandbox",
                "capuchin.dev/run": label_value(labels[LABEL_RUN]),
                OWNER_LABEL: label_value(labels[LABEL_OWNER]),
            },
            "annotations": dict(labels),
        },
        "spec": spec,
    }


def label_value(text: str) -> str:
    """A digest of `text` that fits into a label: at most 63 letters, digits and `-_.`."""
    return hashlib.sha256(text.encode()).hexdigest()[:32] if text else ""


def _memory_volume(name: str, size: str) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def node_profile() -> str:
    """JSON in the form of the runtime specification's `LinuxSeccomp`, which differs from Docker's.

    https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp
    """
    docker: dict[str, Any] = json.loads(warm_profile(seccomp_profile()))
    profile = {
        "defaultAction": docker["defaultAction"],
        "architectures": [entry["architecture"] for entry in docker["archMap"]],
        "syscalls": [
            {key: value for key, value in rule.items() if key != "comment"}
            for rule in docker["syscalls"]
        ],
    }
    return json.dumps(profile, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(node_profile())
