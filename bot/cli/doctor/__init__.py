"""`capuchin doctor`: checks that everything Capuchin needs exists and works."""

from __future__ import annotations
