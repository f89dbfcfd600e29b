"""Runs luacheck over the scripts as the server gets them: with their includes expanded.

An include is shared, so a script may leave some of what it defines unused; what no script uses is
reported like every other finding.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from emq_django.protocol import scripts

_DEFINED = re.compile(r"^local (?:function )?(\w+)", re.MULTILINE)
_UNUSED = re.compile(r"unused (?:function|variable) '?(\w+)'?")


def main() -> int:
    texts = {name: scripts.load(name).text for name in scripts.names()}
    includes = Path(scripts.__file__).parent.glob("lua/include/*.lua")
    shared = {name for include in includes for name in _DEFINED.findall(include.read_text("utf-8"))}
    definitions = Counter(name for text in texts.values() for name in _DEFINED.findall(text))
    findings = [(finding, _UNUSED.search(finding)) for finding in _luacheck(texts)]
    unused = Counter(match[1] for _, match in findings if match)
    real = [
        finding
        for finding, match in findings
        if not match or match[1] not in shared or unused[match[1]] == definitions[match[1]]
    ]
    print("\n".join(real) or f"{len(texts)} scripts, no finding")
    return 1 if real or not texts else 0


def _luacheck(texts: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, f"{name}.lua").write_text(text, encoding="utf-8")
        files = [f"{name}.lua" for name in texts]
        command = ["luacheck", "--config", str(Path(".luacheckrc").resolve())]
        command += ["--formatter", "plain", "--no-color", *files]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode > 2 or result.stderr:
        sys.exit(f"luacheck itself failed: {result.stdout}{result.stderr}")
    return result.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
