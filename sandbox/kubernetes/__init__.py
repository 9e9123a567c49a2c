"""Sandboxes as pods of a Kubernetes cluster. Experimental: settings and behaviour may change.

Pods run the same process 1 and the same executions as warm Docker containers. The only importer of
kubernetes. Start at `kubernetes_engine.py`.
"""
