"""Whether this system can be the host of a run, said before anything is begun."""

import os
import resource
from pathlib import Path
from typing import Final

_IMAGE: Final = (
    "On a Mac, or elsewhere with Docker Desktop, run Capuchin in its image or in a Linux machine "
    "(under WSL2: in the distribution)."
)


def explain_unfit_system() -> str:
    """A sentence on what this system lacks; "" if it has all that is needed.

    Asks a helper process whether its limits of memory hold: it takes a tenth of a second.
    """
    lacking = [
        name
        for name, there in (
            ("memfd_create", hasattr(os, "memfd_create")),
            ("prlimit", hasattr(resource, "prlimit")),
            ("/proc/self/fd", Path("/proc/self/fd").is_dir()),
        )
        if not there
    ]
    if lacking:
        return f"Capuchin works on Linux, and this system lacks {', '.join(lacking)}. {_IMAGE}"
    from pipeline.codebase.isolated import limits_hold

    if not limits_hold():
        return (
            "The limits on memory and time of helper processes cannot be set here, so that nothing "
            f"untrusted may be read. {_IMAGE}"
        )
    return ""
