"""How one file of tests is run: what a language says, and the reproduction ladder uses."""

from collections.abc import Sequence

from sandbox.frozen import Frozen
from sandbox.program import Execution


class FileRunner(Frozen):
    """One way to run one test file; one that runs none, unless a language overrides it."""

    argv: tuple[str, ...]
    """The command without the file."""

    @property
    def style(self) -> str:
        """The framework for which a test file must be written."""
        return " ".join(self.argv)

    def write_probe(self, beside: str) -> str:
        """A test file that passes, to find out whether the runner starts at all; `beside` is the
        text of another one in its folder, or empty. Empty: none."""
        return ""

    def command(self, path: str, names: Sequence[str] = ()) -> tuple[str, ...] | None:
        """The command that runs the test file `path`, or only its tests `names`; None if
        impossible."""
        return None

    def has_passing_test(self, output: str) -> bool:
        """Whether at least one test passed, according to the runner's output."""
        return False

    def has_no_test(self, run: Execution) -> bool:
        """Whether the file held no test for the runner."""
        return False

    def was_not_run(self, run: Execution) -> bool:
        """Whether the runner did not get to run the file's tests."""
        return run.exit_code in (126, 127)

    def has_test_failure(self, run: Execution) -> bool:
        """Whether a run that did not pass is that of tests, failed or not importable."""
        return run.exit_code == 1

    def is_not_collected(self, run: Execution) -> bool:
        """Whether the test file could not be loaded, as opposed to a failing test in it."""
        return False
