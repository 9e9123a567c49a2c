"""Java and Kotlin, described by data. Start at `language.toml`."""
