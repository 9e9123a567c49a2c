"""Starts the installer (`sandbox/guest/installer`) inside the build container."""

from __future__ import annotations

import sys

sys.path.insert(0, "/opt/capuchin")

from sandbox.guest.installer.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
