"""The seccomp profile of a warm pod, in the form that a node's runtime reads from its disk.

`python -m sandbox.kubernetes.profile` prints it; `deploy/kubernetes/lane.json` holds it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sandbox.docker.container import seccomp_profile, warm_profile


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
