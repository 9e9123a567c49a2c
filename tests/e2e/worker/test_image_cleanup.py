"""What a worker does now and then, so that a machine does not fill up."""

from pathlib import Path
from uuid import uuid4

import docker
import pytest

from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from sandbox.docker.base_image import image_exists
from sandbox.engine import EnvironmentRequest
from tests.support.docker import build_environment, make_tree


@pytest.mark.parametrize(("room", "stays"), [(20_000, True), (0, False)])
async def test_images_stay_while_they_fit(
    room: int, stays: bool, tmp_path: Path, daemon: docker.APIClient
) -> None:
    # An App of its own: nobody else's images can go.
    settings = Settings(github_app_id=f"test-{uuid4().hex}")
    engine = build_engine(settings)
    tree = make_tree(tmp_path, {"app.py": f"# {uuid4()}"})
    image = await build_environment(
        engine, EnvironmentRequest(tree, setup=["true"], scope=uuid4().hex)
    )
    evicted = await PipelineRunner(settings, engine).evict_images(room * 1_000_000)
    assert (evicted == 0) is stays
    assert image_exists(daemon, image) is stays
    await engine.collect(max_bytes=0)
    await engine.close()
