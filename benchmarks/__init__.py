"""Ratios against peers, measured side by side in one run: ``python -m benchmarks``. Nothing here is a test."""
