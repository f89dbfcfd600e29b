"""The pytest plugin: the fixture ``emq``. Imports Django only when a test uses it.

Installed with the package; ``-p no:emq_django.pytest_plugin`` turns it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Emq:
    """What ``emq_django.testing`` offers, for the queues of one test.

    Attributes:
        prefix: stands before the names of this test's queues on the server.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._clock: Any = None

    def __getattr__(self, name: str) -> Any:
        from emq_django import testing

        if name in testing.__all__:
            return getattr(testing, name)
        raise AttributeError(
            f"the fixture emq has no {name!r}; it has {', '.join(testing.__all__)}"
        )

    @property
    def clock(self) -> Any:
        """The test's ``Clock``."""
        if self._clock is None:
            self._clock = self.Clock()
        return self._clock


@pytest.fixture
def emq() -> Iterator[Emq]:
    """Queues that nobody else uses, and ``emq_django.testing`` for them: ``emq.run_pending()``."""
    from emq_django.testing import isolated

    with isolated() as prefix:
        yield Emq(prefix)
