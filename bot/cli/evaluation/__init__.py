"""What `capuchin evaluate --trees` does: measures the context, or grades predictions."""
