"""What can go wrong with the sandbox itself, in contrast to the code that runs in it."""


class SandboxError(Exception):
    """The sandbox failed. This says nothing about the code that ran in it.

    SandboxError
    ├── SandboxUnavailable   temporary: Docker does not answer; try again later
    ├── PatchRejected        the caller's diff does not apply to the checkout
    └── EnvironmentFailed    the repository could not be installed
    """


class SandboxUnavailable(SandboxError):
    """No container could be started or reached."""


class PatchRejected(SandboxError):
    """A diff does not apply to the checkout; `str(error)` holds git's own words."""


class EnvironmentFailed(SandboxError):
    """The repository could not be installed.

    `command` is the step that failed, `log` the end of its output.
    """

    def __init__(self, message: str, *, command: str, log: str) -> None:
        super().__init__(message)
        self.command = command
        self.log = log
