"""Sends the policy that the pages keep: nothing inline, nothing from elsewhere.

Django 6.0 brings a middleware of its own for this; the example runs on 5.2 as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

POLICY = "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    return middleware
