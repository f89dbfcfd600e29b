from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.core.exceptions import ValidationError

from example_project.airports.csv_file import MAX_BYTES, Chunk, FileRefused, read_chunks

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile


class UploadForm(forms.Form):
    """Accepts a CSV file of airports; `chunks` holds its rows once the form is valid."""

    file = forms.FileField(
        label="CSV file of airports",
        max_length=255,
        help_text=f"UTF-8, with a header line, at most {MAX_BYTES // 1024 // 1024} MB.",
        widget=forms.ClearableFileInput(attrs={"accept": ".csv,text/csv"}),
    )
    chunks: list[Chunk]

    def clean_file(self) -> UploadedFile[bytes]:
        file: UploadedFile[bytes] = self.cleaned_data["file"]
        if file.size is None or file.size > MAX_BYTES:
            raise ValidationError(f"The file is larger than {MAX_BYTES // 1024 // 1024} MB.")
        try:
            self.chunks = list(read_chunks(file.open()))
        except FileRefused as exc:
            raise ValidationError(str(exc)) from exc
        if not self.chunks:
            raise ValidationError("The file has a header line and no rows.")
        return file
