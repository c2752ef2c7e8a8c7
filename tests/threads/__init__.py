"""Tests in which many threads do what each alone does elsewhere."""
