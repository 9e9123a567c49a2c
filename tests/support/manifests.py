"""What `kubectl apply -k deploy/kubernetes` would send."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.kubernetes_schemas import check_manifest

FOLDER: Final = Path(__file__).parents[2] / "deploy/kubernetes"


def render(folder: Path = FOLDER) -> list[dict[str, Any]]:
    kubectl = Path(sys.executable).with_name("kubectl")
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def render_own(place: Path, kustomization: str, folder: str = "kubernetes") -> list[dict[str, Any]]:
    """Of somebody's own kustomization at `place`, with a copy of ours beside it."""
    shutil.copytree(FOLDER, place / folder)
    (place / "kustomization.yaml").write_text(kustomization)
    found = render(place)
    for one in found:
        check_manifest(one, "1.34")
    return found


def render_component(place: Path, name: str) -> list[dict[str, Any]]:
    """Ours with one of its components."""
    own = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["kubernetes"],
        "components": [f"kubernetes/{name}"],
    }
    return render_own(place, json.dumps(own))
