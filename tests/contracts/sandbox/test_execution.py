"""The contract of an execution, held by Docker's own runtime."""

import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.errors import SandboxUnavailable
from sandbox.program import python_script
from tests.contracts.sandbox.command_contract import *  # noqa: F403
from tests.contracts.sandbox.execution_contract import *  # noqa: F403 - the tests themselves


async def test_an_image_that_is_gone_is_a_failure_of_the_sandbox(engine: DockerEngine) -> None:
    async with engine.open("capuchin/tree:never-made", run_id="test-gone") as sandbox:
        with pytest.raises(SandboxUnavailable, match="prepare it again"):
            await sandbox.run(python_script("print()"))
