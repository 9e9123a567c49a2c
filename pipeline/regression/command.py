"""The commands that may run a repository's own tests, and which of the tests to run."""

from collections.abc import Sequence

from pydantic import Field

from pipeline.codebase.commit import Codebase
from pipeline.languages.registry import main_language
from pipeline.languages.test_command import TestCommand
from sandbox.frozen import Frozen

NO_COMMAND = (
    "I found no tests in this repository, and no test command in its configuration: "
    "set `test` in .github/capuchin.yml."
)


class RequestedTests(Frozen):
    """The tests to run; None: all."""

    tests: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    functions: bool = False
    """Whether to record which functions each test runs."""
    first: tuple[str, ...] = ()
    """Files to run before the others, in this order. It changes no result, so equal requests may
    differ in it; a runner that sorts its files by itself does not heed it."""
    named: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """By file of `files`: the tests of it to run, with or without their class and parameters; empty
    for the whole file. A runner that takes only files runs all of them."""

    @property
    def are_chosen(self) -> bool:
        """Whether these are a choice, not all tests that the command runs."""
        return self.tests is not None or self.files is not None

    @property
    def is_of_files(self) -> bool:
        """Whether these are whole files, and nothing else is asked of their run."""
        return bool(self.files) and self.tests is None and not (self.functions or self.named)

    def key(self) -> str:
        """The same for equal requests, also of runs that are saved."""
        return self.model_dump_json(exclude={"first"} if self.named else {"first", "named"})


async def find_commands(
    codebase: Codebase, configured: Sequence[str] = ()
) -> tuple[TestCommand, ...]:
    """Return only the configured command; otherwise possible commands, the likeliest first. Empty
    if there is none."""
    return tuple(await main_language(codebase).find_commands(codebase, configured))
