"""The Docker backend: images, builds, cold and warm containers.

The only importer of docker. Start at `docker_engine.py`.
"""
