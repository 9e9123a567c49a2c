"""What goes into the base image, and the system-call filter of every container."""
