"""Sandboxes as pods of a Kubernetes cluster: the same lanes, the same process 1, another host.

`engine.py` is the door; `pod.py` is what a lane asks of the cluster, `cluster.py` the only one who
talks to it, `stream.py` the way to process 1.
"""
