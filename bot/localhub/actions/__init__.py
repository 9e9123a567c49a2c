"""What can be done on the hub: each changes the state and sends the webhooks that GitHub would.

The REST operations and the verbs of `LocalHub` both end here. They need a running event loop.
"""
