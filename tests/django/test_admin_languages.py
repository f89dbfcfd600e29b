"""Every string of the package is in the shipped translation, and the pages speak it."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client, override_settings
from django.utils.translation.template import templatize

import emq_django
from tests.django.conftest import Jobs, job_url, overview_url, queue_url, text_of
from tests.django.test_admin_bulk import bury_many

PACKAGE = Path(emq_django.__file__).parent
GERMAN = PACKAGE / "locale" / "de" / "LC_MESSAGES"
CALLS = {"_": 1, "gettext": 1, "gettext_lazy": 1, "ngettext": 2}
QUOTED = r"u?('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
# What means the same in both languages, or is a name.
ALIKE = {
    "%(ms)d ms", "%(number)s MB", "%(number)s kB", "%(seconds)s s", "95 %",
    "95 %%", "Filter", "Filter:", "Host", "Job", "Job %(id)s", "Jobs", "Name", "Server:", "Version",
    "Worker", "in %(span)s", "normal",
}  # fmt: skip


def of_code(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for part in node.args[: CALLS.get(node.func.id, 0)]:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def of_template(path: Path) -> Iterator[str]:
    for call in re.finditer(rf"n?gettext\({QUOTED}(?:,{QUOTED})?", templatize(path.read_text())):
        yield from (ast.literal_eval(part) for part in call.groups() if part)


def strings() -> set[str]:
    code = [PACKAGE / "models.py", PACKAGE / "apps.py", *(PACKAGE / "admin").rglob("*.py")]
    templates = (PACKAGE / "templates").rglob("*.html")
    found = {one for path in code for one in of_code(path)}
    return found | {one for path in templates for one in of_template(path)}


@pytest.fixture(scope="module")
def german() -> gettext.GNUTranslations:
    with (GERMAN / "django.mo").open("rb") as compiled:
        return gettext.GNUTranslations(compiled)


def test_no_string_is_untranslated(german: gettext.GNUTranslations) -> None:
    known = strings()
    assert len(known) > 250

    missing = [
        one
        for one in known
        if german.gettext(one) == one and german.ngettext(one, one, 1) == one and one not in ALIKE
    ]

    assert [one for one in missing if not _is_plural(one, german)] == []


def _is_plural(text: str, german: gettext.GNUTranslations) -> bool:
    catalogue = vars(german)["_catalog"]
    po = (GERMAN / "django.po").read_text()
    return f"msgid_plural {_quoted(text)}" in po or (text, 0) in catalogue


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_translation_has_the_placeholders_of_its_original(
    german: gettext.GNUTranslations,
) -> None:
    for key, translation in vars(german)["_catalog"].items():
        original = key if isinstance(key, str) else key[0]
        holes = re.compile(r"%(?:\(\w+\))?[-.\d]*[a-zA-Z]")
        assert sorted(holes.findall(original)) == sorted(holes.findall(translation)) or not original


def test_what_is_compiled_is_what_is_written(german: gettext.GNUTranslations) -> None:
    po = (GERMAN / "django.po").read_text()

    singles = re.findall(r'^msgid "(.+)"\nmsgstr "(.*)"$', po, re.MULTILINE)

    assert len(singles) > 250
    for text, translation in singles:
        assert german.gettext(_read(text)) == _read(translation)
    assert 'msgstr ""\n\n' not in po
    assert "fuzzy" not in po


def _read(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")


def test_the_pages_speak_german(jobs: Jobs, root: Client) -> None:
    ids = bury_many(jobs, 3, last_error="boom")
    with override_settings(LANGUAGE_CODE="de"):
        overview = text_of(root.get(overview_url()))
        dead = text_of(root.get(queue_url(jobs.name, "?tab=dead&attempts=2")))
        job = text_of(root.get(job_url(jobs.name, ids[0])))
        question = text_of(root.post(queue_url(jobs.name, "?tab=dead"), {"action": "retry_all"}))

    assert "Warteschlangen" in overview
    assert "Ausgewählte wiederholen" in dead
    assert "Mindestens 2 Versuche" in dead
    assert "3 Jobs dieser Liste angesehen." in dead
    assert "aufgegeben (tot)" in job
    assert "Sind Sie sicher?" in question
    for page in (overview, dead, job, question):
        content = page.split('id="content-main"')[1].split("<footer")[0]
        words = re.sub(r"<[^>]*>", " ", content)
        assert not re.search(r"\b(the|selected|queue|jobs? of|waiting|matching)\b", words), words
