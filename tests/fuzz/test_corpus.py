"""Replays the corpus of each fuzzing target: what the engine has once found stays fixed. This needs no engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).resolve().parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_the_corpus_breaks_a_property(name: str) -> None:
    files = sorted((CORPUS / name).iterdir())
    assert files
    for file in files:
        try:
            TARGETS[name](file.read_bytes())
        except BaseException as error:
            error.add_note(f"input: {file}")
            raise


def test_every_folder_of_the_corpus_has_its_target() -> None:
    assert sorted(folder.name for folder in CORPUS.iterdir()) == sorted(TARGETS)
