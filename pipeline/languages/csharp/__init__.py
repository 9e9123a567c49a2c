"""C#, described by data."""
