"""What is kept of ended runs beyond Redis: their bundles, in an object store."""
