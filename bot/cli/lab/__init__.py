"""`capuchin evaluate` and `capuchin learn`; the only importer of `pipeline.lab`."""
