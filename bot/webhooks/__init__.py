"""From a delivery to the request that it makes."""
