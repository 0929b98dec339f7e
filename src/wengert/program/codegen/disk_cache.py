"""On-disk cache of machine code and bytecode, addressed by a hash of inputs; corrupt files are ignored and rebuilt."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Return the cache directory: WENGERT_CACHE_DIR, or a subdirectory of the user's cache directory."""
    given = os.environ.get("WENGERT_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wengert"


def read(name: str) -> tuple[dict[str, Any], bytes] | None:
    """Return metadata and code; None if the file is missing, unreadable or corrupt."""
    try:
        head, _, code = (folder() / name).read_bytes().partition(b"\n")
        state = json.loads(head)
        return (state, code) if hashlib.sha256(code).hexdigest() == state.pop("sha256") else None
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(name: str, state: dict[str, Any], code: bytes) -> None:
    """Store code and its metadata atomically; on errors, which are ignored, the next process compiles again."""
    state = {**state, "sha256": hashlib.sha256(code).hexdigest()}
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
            file.write(json.dumps(state).encode() + b"\n" + code)
        os.replace(file.name, folder() / name)
    except (OSError, RuntimeError):
        pass
