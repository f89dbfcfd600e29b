"""The example's import, from the uploaded file to the stored rows."""

from __future__ import annotations

import csv
import importlib.resources
import io
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import override_settings
from django.urls import reverse

from emq_django import conf, lane_for, testing
from emq_django.connections import wire_for
from emq_django.errors import WireError
from emq_django.protocol.claim import take
from emq_django.worker.job import Job
from example_project import settings as example_settings
from example_project.airports import csv_file
from example_project.airports.csv_file import Chunk, FileRefused, read_chunks
from example_project.airports.handlers import judge, on_chunk
from example_project.airports.models import Airport, Import, ImportChunk, RowError
from example_project.airports.payloads import ChunkPayload
from example_project.airports.rows import RowRefused, read_row, visible
from example_project.airports.views import start_import

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from django.test import Client
    from pytest_django import Settings

    from emq_django.protocol.records import ClaimedJob

pytestmark = pytest.mark.urls("example_project.urls")

TASKS = example_settings.TASKS

COLUMNS = ["icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz"]
LISBON = {
    "icao": "LPPT",
    "iata": "LIS",
    "name": "Humberto Delgado Airport",
    "city": "Lisbon",
    "subd": "Lisboa",
    "country": "PT",
    "elevation": "374",
    "lat": "38.7813",
    "lon": "-9.13592",
    "tz": "Europe/Lisbon",
}


def cells(**changed: str) -> list[str]:
    return list((LISBON | changed).values())


def csv_bytes(*rows: list[str], columns: list[str] = COLUMNS) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([columns, *rows])
    return text.getvalue().encode()


def upload(content: bytes, name: str = "airports.csv") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, "text/csv")


@pytest.fixture
def imports_queue(settings: Settings, redis_client: redis.Redis) -> Iterator[None]:
    """The example's settings, with keys of this test alone."""
    prefix = f"{settings.EMQ['QUEUE_PREFIX']}{uuid.uuid4().hex[:8]}-"
    handler = "example_project.airports.handlers.on_chunk"
    settings.EMQ = {
        **settings.EMQ,
        "QUEUE_PREFIX": prefix,
        "QUEUES": {"imports": {"HANDLER": handler}},
    }
    settings.LOGIN_URL, settings.LOGIN_REDIRECT_URL = "login", "imports"
    yield
    if keys := list(redis_client.scan_iter(match=f"emq:{{{prefix}*}}:*", count=1_000)):
        redis_client.delete(*keys)


@pytest.fixture
def alice(transactional_db: None) -> User:
    return User.objects.create_user("alice")


def take_all() -> list[ClaimedJob]:
    """Take what waits in the queue, as a worker would."""
    queue = conf.keys("imports")
    return wire_for(queue).run(take(queue, "test", 30_000, 1_000)).jobs


def run(job: ClaimedJob) -> None:
    on_chunk(Job(id=job.id, payload=job.payload, attempts=job.attempts, lane=job.lane))


def stored() -> list[Any]:
    """Everything that a handler writes, without the keys and times that a second run may renew."""
    return [
        list(Airport.objects.values()),
        list(ImportChunk.objects.values("imported", "number", "stored", "refused")),
        list(RowError.objects.values("chunk__number", "line", "text", "reason")),
    ]


class TestRow:
    def test_a_row_becomes_an_airport(self) -> None:
        row = read_row(COLUMNS, cells())

        assert (row.code, row.country, row.elevation_ft) == ("LPPT", "PT", 374.0)
        assert (row.latitude, row.longitude) == (38.7813, -9.13592)

    @pytest.mark.parametrize(
        ("column", "value", "reason"),
        [
            ("icao", "", "icao “” is not an ICAO code"),
            ("icao", "lppt", "icao “lppt” is not an ICAO code"),
            ("icao", "_AQT", "icao “_AQT” is not an ICAO code"),
            ("icao", "\uff2c\uff30\uff30\uff34", "is not an ICAO code"),
            ("iata", "LISB", "iata “LISB” is not an IATA code"),
            ("name", "", "name is empty"),
            ("name", "x" * 121, "name has 121 characters"),
            ("name", "Gueppi\xad Airport", "name has an invisible character, U+00AD"),
            ("city", "a\0b", "city has an invisible character, U+0000"),
            ("city", "a\u202eb", "city has an invisible character, U+202E"),
            ("country", "Portugal", "country “Portugal” is not a two-letter country code"),
            ("elevation", "high", "elevation “high” is not a number"),
            ("elevation", "99999", "elevation 99999 is not between -2,000 and 30,000"),
            ("lat", "nan", "lat “nan” is not a number"),
            ("lat", "inf", "lat “inf” is not a number"),
            ("lat", "1_0", "lat “1_0” is not a number"),
            ("lat", "٣٨", "is not a number"),
            ("lat", "90.0001", "lat 90.0001 is not between -90 and 90"),
            ("lon", "-180.5", "lon -180.5 is not between -180 and 180"),
            ("lon", "1e2", "lon “1e2” is not a number"),
            ("tz", "", "tz “” is not a time zone"),
            ("tz", "../etc/passwd", "is not a time zone"),
        ],
    )
    def test_a_bad_cell_is_refused_with_its_column_and_value(
        self, column: str, value: str, reason: str
    ) -> None:
        with pytest.raises(RowRefused) as refused:
            read_row(COLUMNS, cells(**{column: value}))

        assert reason in str(refused.value)

    def test_a_row_of_another_width_is_refused(self) -> None:
        with pytest.raises(RowRefused, match="3 cells where the header names 10 columns"):
            read_row(COLUMNS, ["a", "b", "c"])

    def test_antarctica_needs_no_time_zone(self) -> None:
        assert read_row(COLUMNS, cells(country="AQ", tz="")).time_zone == ""

    def test_what_a_screen_would_hide_is_shown_escaped(self) -> None:
        assert visible("a\0b\u202ec\n") == r"a\x00b\u202ec\n"
        assert visible("x" * 500) == "x" * 200 + "…"


class TestFile:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "The file is empty."),
            (b"\n\r\n\n", "The file is empty."),
            (b"a,b\n1,2\n", "Missing: icao, name, city"),
            (b"\0" * 5_000, "Missing: icao"),
            (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
            ("icao,name".encode("utf-16"), "not UTF-8"),
            (csv_bytes(columns=[*COLUMNS, "icao"]), "A column is named twice"),
            (csv_bytes(columns=[*COLUMNS, "x" * 500]), "The first line is longer"),
            (csv_bytes(cells(name="x" * 600)), "The row that ends in line 2 is longer than 500"),
            (csv_bytes() + b'"' + b"x\n" * 100_000, "Line .* is not valid CSV: field larger"),
            (csv_bytes() + b'"a"b,c\n', "Line 2 is not valid CSV"),
            (csv_bytes() + b'"never closed', "Line 2 is not valid CSV: unexpected end of data"),
            (csv_bytes(cells()) + b"\xff\xfe", "not UTF-8"),
        ],
    )
    def test_a_file_that_is_no_table_of_airports_is_refused(
        self, content: bytes, reason: str
    ) -> None:
        with pytest.raises(FileRefused, match=reason):
            list(read_chunks(io.BytesIO(content)))

    def test_rows_keep_the_line_where_they_end(self) -> None:
        content = csv_bytes(cells(), ["two\nlines"], [], cells())

        (chunk,) = read_chunks(io.BytesIO(content))

        assert [line for line, _ in chunk.rows] == [2, 4, 6]

    def test_a_byte_order_mark_and_capitals_in_the_header_are_fine(self) -> None:
        content = b"\xef\xbb\xbf" + csv_bytes(cells()).replace(b"icao", b"ICAO")

        (chunk,) = read_chunks(io.BytesIO(content))

        assert chunk.columns == COLUMNS

    def test_too_many_rows_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(csv_file, "MAX_ROWS", 3)

        with pytest.raises(FileRefused, match="more than 3 rows"):
            list(read_chunks(io.BytesIO(csv_bytes(*[cells()] * 4))))

    def test_the_largest_chunk_fits_into_a_payload(self) -> None:
        row = ["\x01" * (csv_file.MAX_ROW_CHARACTERS - 1)]
        chunk = Chunk(COLUMNS, [(10**6, row)] * csv_file.ROWS_PER_CHUNK)

        payload = ChunkPayload(import_id=2**63, number=10**6, chunk=chunk).to_bytes()

        assert len(payload) < conf.conf().max_payload_bytes

    def test_the_real_file_has_rows_to_store_and_rows_to_refuse(self) -> None:
        source = importlib.resources.files("airportsdata") / "airports.csv"

        with source.open("rb") as file:
            chunks = list(read_chunks(file))

        airports, errors = 0, 0
        for chunk in chunks:
            good, bad = judge(ChunkPayload(import_id=1, number=0, chunk=chunk))
            airports, errors = airports + len(good), errors + len(bad)
        assert airports > 28_000
        assert 0 < errors < 100
        assert airports + errors == sum(len(chunk.rows) for chunk in chunks)


@pytest.mark.usefixtures("imports_queue")
class TestHandler:
    @pytest.fixture
    def jobs(self, alice: User) -> list[ClaimedJob]:
        rows = [cells(icao=f"LP{number:02}") for number in range(7)]
        rows[1] = cells(lat="95")
        rows[2] = cells(icao="LP00")
        chunks = list(read_chunks(io.BytesIO(csv_bytes(*rows)), size=3))
        start_import(alice, "airports.csv", chunks)
        return take_all()

    def test_each_chunk_is_stored(self, jobs: list[ClaimedJob]) -> None:
        for job in jobs:
            run(job)

        assert [airport.pk for airport in Airport.objects.all()] == [
            f"LP0{number}" for number in (0, 3, 4, 5, 6)
        ]
        assert [(error.line, error.reason) for error in RowError.objects.all()] == [
            (3, "lat 95 is not between -90 and 90"),
            (4, "icao LP00 stands in an earlier row of this file too"),
        ]

    def test_a_second_run_of_each_chunk_changes_nothing(self, jobs: list[ClaimedJob]) -> None:
        for job in jobs:
            run(job)
        once = stored()

        for job in reversed(jobs):
            run(job)

        assert stored() == once

    def test_a_changed_row_updates_its_airport(self, alice: User, jobs: list[ClaimedJob]) -> None:
        run(jobs[0])
        chunks = list(read_chunks(io.BytesIO(csv_bytes(cells(icao="LP00", name="New name")))))
        start_import(alice, "later.csv", chunks)

        (later,) = take_all()
        run(later)

        assert Airport.objects.get(pk="LP00").name == "New name"

    def test_a_run_that_fails_half_way_leaves_nothing(
        self, jobs: list[ClaimedJob], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: object) -> None:
            raise RuntimeError("power cut")

        monkeypatch.setattr(RowError.objects, "bulk_create", fail)
        with pytest.raises(RuntimeError, match="power cut"):
            run(jobs[0])

        assert stored() == [[], [], []]

    def test_a_job_of_a_deleted_import_ends_quietly(
        self, jobs: list[ClaimedJob], caplog: pytest.LogCaptureFixture
    ) -> None:
        Import.objects.all().delete()

        run(jobs[0])

        assert not Airport.objects.exists()
        assert "is gone" in caplog.text

    def test_a_payload_that_is_no_chunk_fails(self, transactional_db: None) -> None:
        with pytest.raises(json.JSONDecodeError):
            on_chunk(Job(id="JOB00000000000", payload=b"not json"))


@pytest.mark.usefixtures("imports_queue")
class TestStart:
    def test_no_job_leaves_before_the_commit(self, alice: User) -> None:
        chunks = list(read_chunks(io.BytesIO(csv_bytes(cells()))))

        with transaction.atomic():
            start_import(alice, "airports.csv", chunks)
            assert take_all() == []

        assert len(take_all()) == 1

    def test_nothing_is_kept_when_the_queue_is_down(self, alice: User, settings: Settings) -> None:
        settings.EMQ = {**settings.EMQ, "CONNECTION": "redis://127.0.0.1:1/0"}
        chunks = list(read_chunks(io.BytesIO(csv_bytes(cells()))))

        with pytest.raises(WireError):
            start_import(alice, "airports.csv", chunks)

        assert not Import.objects.exists()


@pytest.mark.usefixtures("imports_queue")
class TestPages:
    @pytest.fixture
    def visitor(self, alice: User, client: Client) -> Client:
        client.force_login(alice)
        return client

    @pytest.mark.parametrize(
        "path",
        ["/", "/airports/", "/imports/1/", "/imports/1/progress/", "/countries/", "/counts/x/"],
    )
    @pytest.mark.django_db
    def test_every_page_needs_a_login(self, client: Client, path: str) -> None:
        assert client.get(path).headers["Location"] == f"/accounts/login/?next={path}"
        assert client.post(path, {"file": upload(b"x")}).status_code == 302
        assert take_all() == []

    def test_an_upload_becomes_one_job_per_chunk_in_the_lane_of_its_user(
        self, visitor: Client, alice: User
    ) -> None:
        rows = [cells(icao=f"{number:04}") for number in range(csv_file.ROWS_PER_CHUNK + 1)]

        response = visitor.post("/", {"file": upload(csv_bytes(*rows))})

        started = Import.objects.get()
        assert response.headers["Location"] == f"/imports/{started.pk}/"
        assert (started.user, started.row_count, started.chunk_count) == (alice, 251, 2)
        jobs = take_all()
        assert [ChunkPayload.from_bytes(job.payload).number for job in jobs] == [0, 1]
        assert {job.lane for job in jobs} == {lane_for(alice)}

    def test_two_users_upload_into_two_lanes(self, visitor: Client, client: Client) -> None:
        bob = User.objects.create_user("bob")
        visitor.post("/", {"file": upload(csv_bytes(cells()))})
        client.force_login(bob)
        client.post("/", {"file": upload(csv_bytes(cells()))})

        lanes = [job.lane for job in take_all()]

        assert len(set(lanes)) == 2
        assert lane_for(bob) in lanes

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "The submitted file is empty."),
            (csv_bytes(), "The file has a header line and no rows."),
            (b"a,b\n1,2\n", "Missing: icao, name"),
            (b"<script>alert(1)</script>", "Found: &lt;script&gt;"),
            (csv_bytes(cells()) + b"\xff", "The file is not UTF-8 text"),
            (b"x" * (csv_file.MAX_BYTES + 1), "The file is larger than 10 MB."),
        ],
    )
    def test_a_bad_file_is_refused_with_the_reason(
        self, visitor: Client, content: bytes, reason: str
    ) -> None:
        response = visitor.post("/", {"file": upload(content)})

        assert response.status_code == 422
        assert reason in response.content.decode()
        assert not Import.objects.exists()
        assert take_all() == []

    def test_an_upload_without_a_file_is_refused(self, visitor: Client) -> None:
        assert visitor.post("/").status_code == 422

    def test_the_page_says_so_when_the_queue_is_down(
        self, visitor: Client, settings: Settings
    ) -> None:
        settings.EMQ = {**settings.EMQ, "CONNECTION": "redis://127.0.0.1:1/0"}

        response = visitor.post("/", {"file": upload(csv_bytes(cells()))})

        assert response.status_code == 503
        assert "The queue cannot be reached" in response.content.decode()

    def test_progress_goes_from_nothing_to_finished(self, visitor: Client) -> None:
        visitor.post("/", {"file": upload(csv_bytes(cells(), cells(lat="95")))})
        path = f"/imports/{Import.objects.get().pk}/"
        before = visitor.get(f"{path}progress/").json()
        assert "http-equiv" in visitor.get(path).content.decode()

        for job in take_all():
            run(job)

        after = visitor.get(f"{path}progress/").json()
        assert (before["percent"], before["finished"]) == (0, False)
        assert (after["percent"], after["finished"]) == (100, True)
        assert (after["rows"], after["stored"], after["refused"]) == (2, 1, 1)
        assert "http-equiv" not in visitor.get(path).content.decode()

    @override_settings(TASKS=TASKS)
    def test_the_button_counts_the_airports_by_a_task(self, visitor: Client) -> None:
        lisbon = cells(icao="LPPT", elevation="374")
        visitor.post("/", {"file": upload(csv_bytes(lisbon, cells(icao="LPPR", elevation="228")))})
        for job in take_all():
            run(job)

        where = visitor.post("/countries/").headers["Location"]
        again = visitor.post("/countries/").headers["Location"]
        path = f"/counts/{where.partition('?count=')[2]}/"
        before = visitor.get(path).json()
        testing.run_pending("default")

        assert again == where, "one count lives at a time"
        assert before == {"status": "READY", "finished": False, "countries": None}
        after = {"status": "SUCCESSFUL", "finished": True, "countries": 1}
        assert visitor.get(path).json() == after
        assert "A task counts the airports." in visitor.get(where).content.decode()
        page = visitor.get("/countries/").content.decode()
        assert '<th scope="row">PT</th><td class="number">2</td><td class="number">374 ft' in page

    @override_settings(TASKS=TASKS)
    @pytest.mark.parametrize("name", ["x", "default:JOB00000000000", "imports:JOB00000000000"])
    def test_a_count_that_never_was_is_not_found(self, visitor: Client, name: str) -> None:
        assert visitor.get(f"/counts/{name}/").status_code == 404

    @override_settings(TASKS=TASKS)
    def test_the_page_says_so_when_the_queue_takes_no_task(
        self, visitor: Client, settings: Settings
    ) -> None:
        settings.EMQ = {**settings.EMQ, "CONNECTION": "redis://127.0.0.1:1/0"}

        page = visitor.post("/countries/", follow=True).content.decode()

        assert "The queue cannot be reached" in page
        assert "No airports have been counted yet." in page

    @override_settings(TASKS=TASKS)
    def test_the_admin_shows_the_count_that_is_made_again_and_again(
        self, visitor: Client, alice: User, settings: Settings
    ) -> None:
        settings.EMQ = {**settings.EMQ, "PERIODIC": example_settings.EMQ["PERIODIC"]}
        alice.is_staff = alice.is_superuser = True
        alice.save()

        page = visitor.get(reverse("admin:emq_django_queue_periodic")).content.decode()

        assert "count-airports" in page
        assert "example_project.airports.tasks.count_airports" in page

    def test_hostile_rows_and_names_are_shown_as_text(self, visitor: Client) -> None:
        script = "<script>alert(1)</script>"
        rows = [cells(icao="AAAA", name=script), cells(name="\u202eevil"), cells(lat=script)]
        visitor.post("/", {"file": upload(csv_bytes(*rows), name="<b>\u202evsc.csv")})
        for job in take_all():
            run(job)

        pages = [visitor.get(path).content.decode() for path in ("/", "/airports/")]
        pages.append(visitor.get(f"/imports/{Import.objects.get().pk}/").content.decode())

        for page in pages:
            assert script not in page
            assert "<b>" not in page
            assert "\u202e" not in page
        assert "&lt;script&gt;" in pages[1]
        assert "lat “&lt;script&gt;" in pages[2]

    def test_imports_are_seen_by_their_user_only(self, visitor: Client) -> None:
        bob = User.objects.create_user("bob")
        theirs = Import.objects.create(user=bob, file_name="x.csv", row_count=1, chunk_count=1)

        assert visitor.get(f"/imports/{theirs.pk}/").status_code == 404
        assert visitor.get(f"/imports/{theirs.pk}/progress/").status_code == 404
        assert "x.csv" not in visitor.get("/").content.decode()

    @pytest.mark.parametrize("wanted", ["LPPT", "lis", "humberto", "%", "\0", "'", "x" * 500])
    @pytest.mark.parametrize("page", ["1", "-1", "999", "x", ""])
    def test_any_search_and_any_page_number_is_answered(
        self, visitor: Client, wanted: str, page: str
    ) -> None:
        assert visitor.get("/airports/", {"q": wanted, "page": page}).status_code == 200

    def test_search_finds_by_code_name_and_city(self, visitor: Client) -> None:
        visitor.post("/", {"file": upload(csv_bytes(cells(), cells(icao="EGLL", iata="LHR")))})
        for job in take_all():
            run(job)

        def found(wanted: str) -> int:
            count: int = visitor.get("/airports/", {"q": wanted}).context["page"].paginator.count
            return count

        assert [found(wanted) for wanted in ("EGL", "lhr", "delgado", "lisbon", "xyz")] == [
            1,
            1,
            2,
            2,
            0,
        ]
