"""Coverage-guided fuzzing of the compiled core: ``python -m tests.fuzz`` says how."""
