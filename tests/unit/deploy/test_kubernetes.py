"""`deploy/kubernetes` is valid, and fits what the code asks for."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.settings import Settings, find_unknown_variables
from sandbox.kubernetes.kubernetes_engine import REQUIRED_PERMISSIONS
from sandbox.kubernetes.pod import SECCOMP_PROFILE, PodOptions, node_profile, warm_pod_manifest
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import Limits
from tests.support.kubernetes_schemas import check_manifest
from tests.support.manifests import FOLDER, render, render_component, render_own

KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


@cache
def documents() -> list[dict[str, Any]]:
    return render()


def the(kind: str, name: str) -> dict[str, Any]:
    return next(
        one for one in documents() if (one["kind"], one["metadata"]["name"]) == (kind, name)
    )


@pytest.mark.parametrize("version", ["1.33", "1.34"])
def test_every_manifest_is_one_that_kubernetes_takes(version: str) -> None:
    for one in documents():
        check_manifest(one, version)


def test_every_file_is_applied() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


def test_the_role_grants_what_the_engine_needs_and_no_more() -> None:
    granted = {
        (verb, *resource.partition("/")[::2])
        for rule in the("Role", "capuchin-sandboxes")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(REQUIRED_PERMISSIONS)


def test_the_filter_on_the_nodes_is_that_of_a_lane() -> None:
    mend = "run: python -m sandbox.kubernetes.pod > deploy/kubernetes/lane.json"
    assert (FOLDER / "lane.json").read_text() == node_profile(), mend
    spec = the("DaemonSet", "capuchin-seccomp")["spec"]["template"]["spec"]
    volume = next(one["hostPath"] for one in spec["volumes"] if "hostPath" in one)
    assert f"{Path(volume['path']).name}/lane.json" == SECCOMP_PROFILE


def test_the_filter_is_in_the_form_of_the_runtime_specification() -> None:
    profile = json.loads(node_profile())
    assert profile.keys() == {"defaultAction", "architectures", "syscalls"}
    keys = {key for rule in profile["syscalls"] for key in rule}
    assert keys <= {"names", "action", "errnoRet", "args"}


def find_settings(found: list[dict[str, Any]]) -> dict[str, str]:
    maps = [one["data"] for one in found if one["kind"] == "ConfigMap"]
    return next(data for data in maps if "CAPUCHIN_SANDBOX" in data)


def test_the_environment_names_settings_that_exist() -> None:
    assert not find_unknown_variables(find_settings(documents()))
    Settings.from_env(find_settings(documents()))


def test_a_folder_of_ones_own_sets_images_replicas_settings_and_limits(tmp_path: Path) -> None:
    """The example in docs/operating.md, as it stands there."""
    guide = (FOLDER.parents[1] / "docs/operating.md").read_text()
    example = guide.partition("## Kubernetes")[2].partition("```yaml\n")[2].partition("```")[0]
    found = render_own(tmp_path, example, "capuchin/deploy/kubernetes")
    worker = next(
        one
        for one in found
        if one["metadata"]["name"] == "capuchin-worker" and one["kind"] == "Deployment"
    )
    container = worker["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.corp.example/bots/capuchin:1.2.3"
    assert container["resources"]["limits"]["memory"] == "4Gi"
    assert worker["spec"]["replicas"] == 6
    assert find_settings(found)["CAPUCHIN_WORKER_RUNS"] == "4"
    assert find_settings(found)["CAPUCHIN_SANDBOX"] == "kubernetes"
    name = container["envFrom"][0]["configMapRef"]["name"]
    assert name in {one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap"}
    assert not [image for image in list_images(found) if image.startswith("capuchin")]


def test_the_component_with_trained_models_is_one_that_kubernetes_takes(tmp_path: Path) -> None:
    found = render_component(tmp_path, "models")
    settings = find_settings(found)
    assert settings["CAPUCHIN_PRM_MODEL"] == "openai:prm@http://vllm:8000/v1"
    assert settings["CAPUCHIN_SANDBOX"] == "kubernetes", "the others are kept"
    (container,) = next(
        one["spec"]["template"]["spec"]["containers"]
        for one in found
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "vllm"
    )
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def list_images(found: list[dict[str, Any]]) -> list[str]:
    pods = [one["spec"]["template"]["spec"] for one in found if "template" in one.get("spec", {})]
    return [each["image"] for pod in pods for each in pod["containers"]]


def test_every_container_is_limited_and_asked_whether_it_lives() -> None:
    for one in documents():
        if one["kind"] in ("Deployment", "StatefulSet"):
            for container in one["spec"]["template"]["spec"]["containers"]:
                assert container["resources"]["limits"]["memory"]
                assert container["resources"]["requests"]
                assert container["securityContext"]["readOnlyRootFilesystem"] is True
                asked = "livenessProbe" in container
                assert asked == (one["metadata"]["name"] != "capuchin-worker"), "its lease tells"


def test_no_pod_of_ours_but_the_workers_gets_a_token() -> None:
    for one in documents():
        if one["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            spec = one["spec"]["template"]["spec"]
            has_token = spec.get("automountServiceAccountToken", True)
            assert has_token == (one["metadata"]["name"] == "capuchin-worker")


@pytest.mark.parametrize("options", [PodOptions(), PodOptions(runtime_class="gvisor")])
def test_the_pod_of_a_lane_is_valid_and_walled(options: PodOptions) -> None:
    labels = {LABEL_RUN: "a run / of: any name", LABEL_OWNER: "https://github.com 1"}
    pod = warm_pod_manifest("image", limits=Limits(), labels=labels, options=options)
    check_manifest(pod, "1.34")
    spec = pod["spec"]
    assert spec.get("runtimeClassName", "") == options.runtime_class
    assert "imagePullSecrets" not in spec, "the service account's are used"
    assert spec["automountServiceAccountToken"] is False
    assert spec["hostUsers"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
    assert all("emptyDir" in volume for volume in spec["volumes"])
    walls = spec["containers"][0]["securityContext"]
    assert walls["allowPrivilegeEscalation"] is False
    assert walls["readOnlyRootFilesystem"] is True
    assert walls["capabilities"] == {"drop": ["ALL"]}


def test_redis_has_a_password_and_hears_the_server_and_workers_alone() -> None:
    (container,) = the("StatefulSet", "redis")["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--requirepass", "$(REDISCLI_AUTH)"]
    (rule,) = the("NetworkPolicy", "redis")["spec"]["ingress"]
    (allowed,) = rule["from"][0]["podSelector"]["matchExpressions"]
    assert allowed["values"] == ["capuchin-server", "capuchin-worker"]
    for name in ("capuchin-server", "capuchin-worker"):
        (one,) = the("Deployment", name)["spec"]["template"]["spec"]["containers"]
        (address,) = one["env"]
        assert address["value"] == "redis://:$(REDIS_PASSWORD)@redis:6379/0"
        assert one["envFrom"][1] == {"secretRef": {"name": "capuchin"}}
    models = {"secretRef": {"name": "capuchin-models", "optional": True}}
    assert models in one["envFrom"]
    server = the("Deployment", "capuchin-server")["spec"]["template"]["spec"]["containers"][0]
    assert models not in server["envFrom"]
