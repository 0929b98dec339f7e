"""Machine code kept on disk, under a hash of all that it was made of; what is not whole is made again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where it is kept: WENGERT_CACHE_DIR, or below the user's folder of caches."""
    given = os.environ.get("WENGERT_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wengert"


def read(name: str) -> tuple[dict[str, Any], bytes] | None:
    """What is known about some code, and the code; None if it is not there, not readable, or not whole."""
    try:
        head, _, code = (folder() / name).read_bytes().partition(b"\n")
        state = json.loads(head)
        return (state, code) if hashlib.sha256(code).hexdigest() == state.pop("sha256") else None
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(name: str, state: dict[str, Any], code: bytes) -> None:
    """Keep some code; where nothing can be written it is made again in the next process."""
    state = {**state, "sha256": hashlib.sha256(code).hexdigest()}
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
            file.write(json.dumps(state).encode() + b"\n" + code)
        os.replace(file.name, folder() / name)
    except (OSError, RuntimeError):
        pass
