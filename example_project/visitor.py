"""A visitor of the site: does with urllib what a person does with a browser."""

from __future__ import annotations

import html
import http.cookiejar
import json
import re
import secrets
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from example_project.processes import LaunchFailed

_TIMEOUT_S = 60.0


class Visitor:
    """Has a cookie jar of its own; asks the site itself, whatever proxy the environment names."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def log_in(self, name: str, password: str) -> None:
        self._open("/accounts/login/")
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": self._token()}
        url, _ = self._open("/accounts/login/", urllib.parse.urlencode(fields).encode())
        if "/accounts/login/" in url:
            raise LaunchFailed(f"The site did not let the user {name} in.")

    def upload(self, file_name: str, content: bytes) -> str:
        """Send a file through the form on the first page; return the path of the import's page."""
        boundary = secrets.token_hex(16)
        self._open("/")
        body = (
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n'
            f"{self._token()}\r\n"
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{_quoted(file_name)}"\r\n'
            "Content-Type: text/csv\r\n\r\n"
        ).encode()
        body += content + f"\r\n--{boundary}--\r\n".encode()
        url, _ = self._open("/", body, f"multipart/form-data; boundary={boundary}")
        return urllib.parse.urlsplit(url).path

    def progress(self, path: str) -> dict[str, Any]:
        """Return the figures that an import's page shows."""
        _, body = self._open(f"{path}progress/")
        figures: dict[str, Any] = json.loads(body)
        return figures

    def count(self) -> str:
        """Press the button on the page of the countries; return where its task's result is."""
        url, _ = self._open(
            "/countries/", urllib.parse.urlencode({"csrfmiddlewaretoken": self._token()}).encode()
        )
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query).get("count")
        if not asked:
            raise LaunchFailed("The queue took no task.")
        return f"/counts/{urllib.parse.quote(asked[0])}/"

    def result(self, path: str) -> dict[str, Any]:
        """Return what is known of the task."""
        _, body = self._open(path)
        found: dict[str, Any] = json.loads(body)
        return found

    def _token(self) -> str:
        return next(cookie.value or "" for cookie in self._cookies if cookie.name == "csrftoken")

    def _open(
        self, path: str, body: bytes | None = None, content_type: str | None = None
    ) -> tuple[str, bytes]:
        """Return where the site led to in the end, and what it answered there."""
        headers = {"Content-Type": content_type} if content_type else {}
        request = urllib.request.Request(self._site + path, body, headers)  # noqa: S310 - our site
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                return response.url, response.read()
        except urllib.error.HTTPError as exc:
            with exc:
                raise LaunchFailed(
                    f"The site answered {exc.code} for {path}: {_said(exc.read())}"
                ) from exc
        except OSError as exc:
            raise LaunchFailed(f"The site did not answer for {path}: {exc}") from exc


def _quoted(file_name: str) -> str:
    return file_name.replace("\\", "_").replace('"', "%22").replace("\r", "").replace("\n", "")


def _said(page: bytes) -> str:
    """Return the message in a page of the site, or what kind of failure it is."""
    found = re.search(r'class="error"[^>]*>([^<]+)', page.decode("utf-8", "replace"))
    return html.unescape(found[1]) if found else "see site.log in the data folder."
