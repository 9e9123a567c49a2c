"""What the vLLM server of these tests is started with."""

from __future__ import annotations

NAME = "tiny"
LENGTH = 4096
