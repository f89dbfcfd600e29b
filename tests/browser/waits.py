"""Waiting for a page that is drawn anew meanwhile: what was found may be gone when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome

# No such element, a stale one, and "Node with given id does not belong to the document".
_IN_BETWEEN = (WebDriverException,)


def wait_until(browser: Chrome, condition: Callable[[], object], what: str = "") -> None:
    """Look again until ``condition`` holds; fail after 60 s, saying ``what`` never came."""
    wait = WebDriverWait(browser, 60, poll_frequency=0.1, ignored_exceptions=_IN_BETWEEN)
    wait.until(lambda _: condition(), what)
