"""What Capuchin reports of itself: the metrics of workers, traces, and calls in the debug log."""
