"""AppArmor's limit of user namespaces, which warm containers make (Ubuntu 24.04 sets it).

A container without a profile falls under it, too; one whose profile has `userns,` does not:
https://gitlab.com/apparmor/apparmor/-/wikis/unprivileged_userns_restriction
"""

from pathlib import Path
from typing import Final

PROFILE: Final = "capuchin"
"""`deploy/apparmor-capuchin` has it."""
UNCONFINED: Final = "unconfined"
ADVICE: Final = (
    "AppArmor limits user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1): "
    "copy deploy/apparmor-capuchin to /etc/apparmor.d/capuchin, and load it by `sudo "
    "apparmor_parser -r -W /etc/apparmor.d/capuchin`"
)
_LIMIT: Final = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"


def choose_profile(docker_url: str, root: Path = Path("/")) -> str:
    """The AppArmor profile of a warm container: ours only where the limit makes it necessary.

    `docker_url` is the address as the SDK has it: of a daemon elsewhere this machine knows nothing.
    """
    if not docker_url.startswith("http+docker://localhost"):
        return UNCONFINED
    try:
        limited = (root / _LIMIT).read_text(encoding="ascii").strip() == "1"
    except (OSError, UnicodeDecodeError):
        return UNCONFINED
    return PROFILE if limited else UNCONFINED
