"""What the view says to the handler: one chunk as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from example_project.airports.csv_file import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPayload:
    import_id: int
    number: int
    chunk: Chunk

    def to_bytes(self) -> bytes:
        body = {
            "import": self.import_id,
            "chunk": self.number,
            "columns": self.chunk.columns,
            "rows": self.chunk.rows,
        }
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> ChunkPayload:
        body = json.loads(payload)
        rows = [(line, cells) for line, cells in body["rows"]]
        return cls(
            import_id=body["import"], number=body["chunk"], chunk=Chunk(body["columns"], rows)
        )
