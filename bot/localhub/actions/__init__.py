"""The operations on the hub: each changes the state and sends the webhooks that GitHub would.

The REST API and the methods of `LocalHub` both end here. They need a running event loop.
"""
