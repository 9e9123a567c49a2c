"""C and C++, described by data. Start at `language.toml`."""
