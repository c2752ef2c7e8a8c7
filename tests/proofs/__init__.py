"""Long proofs of the compiled core: ``python -m tests.proofs [--full]``. Not collected by pytest."""
