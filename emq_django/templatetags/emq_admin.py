"""What the admin's templates can't say: where a path breaks, and the nonce of a policy.

The nonce is their one seam that differs between Django's versions.
"""

from __future__ import annotations

import re

from django import template
from django.template.context import Context
from django.utils.html import format_html

register = template.Library()


@register.filter
def emq_parts(path: str) -> list[str]:
    """Return a dotted path in the parts between which a line may break.

    >>> emq_parts("shop.tasks.ship")
    ['shop.', 'tasks.', 'ship']
    """
    return re.findall(r"[^.]*\.|[^.]+", path)


@register.simple_tag(takes_context=True)
def emq_nonce(context: Context) -> str:
    """Print the nonce attribute where a Content-Security-Policy has one.

    Django 6.1 has a tag of its own, 6.0 only the value, 5.2 neither.
    """
    nonce = context.get("csp_nonce")
    return "" if nonce is None else format_html(' nonce="{}"', nonce)
