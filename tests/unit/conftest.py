"""What tests without a server share."""

from __future__ import annotations

import pytest

from emq_django.protocol.ids import mint


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A one for each time that the mint of this process was told to go on elsewhere."""
    noted: list[int] = []
    move = mint.move

    def counted() -> None:
        noted.append(1)
        move()

    monkeypatch.setattr(mint, "move", counted)
    return noted
