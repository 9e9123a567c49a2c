"""PHP, described by data. Start at `language.toml`."""
