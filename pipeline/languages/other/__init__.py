"""Any other language, by make or its own test command. Start at `language.toml`."""
