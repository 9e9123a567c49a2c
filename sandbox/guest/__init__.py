"""What runs inside a container: only the standard library and `sandbox.output`."""
