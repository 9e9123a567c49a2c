"""What Capuchin reports about itself: workers' metrics, traces, and calls in the debug log."""
