"""Scripts that attack the machine they run on; a sandbox must hold them."""

from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
ESCAPE_FROM_A_BUILD: str = TEXTS["ESCAPE_FROM_A_BUILD"]
"""All that code of a repository tries while it is installed; prints OPEN where it gets through."""
MANY_PROCESSES: str = TEXTS["MANY_PROCESSES"]
MEMORY_BOMBS: dict[str, str] = TEXTS["MEMORY_BOMBS"]
