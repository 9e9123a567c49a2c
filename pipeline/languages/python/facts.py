"""What `language.toml` says about Python."""

from typing import Final

from pipeline.languages.language import Facts, read_facts

FACTS: Final[Facts] = read_facts("pipeline.languages.python")
