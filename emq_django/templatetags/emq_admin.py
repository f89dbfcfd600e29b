"""The one seam of the templates that differs between Django's versions: the nonce of a policy."""

from __future__ import annotations

from django import template
from django.template.context import Context
from django.utils.html import format_html

register = template.Library()


@register.simple_tag(takes_context=True)
def emq_nonce(context: Context) -> str:
    """Print the nonce attribute where a Content-Security-Policy has one.

    Django 6.1 has a tag of its own, 6.0 only the value, 5.2 neither.
    """
    nonce = context.get("csp_nonce")
    return "" if nonce is None else format_html(' nonce="{}"', nonce)
