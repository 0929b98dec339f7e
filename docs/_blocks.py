"""Extract and run the code blocks of a Markdown page.

The build uses it to draw figures of the page's results, and the tests to run every page.

A page is a script in pieces: its ```python blocks share one namespace.
A comment on the line before a block announces that it does not end normally:
``<!-- raises: ErrorName -->`` and ``<!-- warns: WarningName -->``.
A ```text block right after a ```python block shows its output, or the error or warning.
"""

import contextlib
import io
import re
import sys
import types
import warnings
from dataclasses import dataclass
from pathlib import Path

#: the file name in error messages; line numbers are counted from the top of the block
SHOWN_NAME = "model.py"

_FENCE = re.compile(r"^```(\S*)")
_COMMENT = re.compile(r"^<!-- (raises|warns): (\w+) -->\s*$")


@dataclass
class Block:
    """One ```python block of a page."""

    path: Path
    line: int  # of the first line of code, counted from 1
    code: str
    ends: str  # "", "raises" or "warns"
    name: str  # of the error or warning
    shown: str | None = None  # the ```text block that follows

    def __str__(self):
        return f"{self.path.name}:{self.line}"


def blocks(path):
    """Every ```python block of a page.

    Parameters
    ----------
    path : Path
        A Markdown file.

    Returns
    -------
    list of Block
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    found = []
    comment = ("", "")
    is_next = False  # only blank lines since the last code block
    i = 0
    while i < len(lines):
        fence = _FENCE.match(lines[i])
        if fence:
            start = i + 1
            i = lines.index("```", start)
            text = "\n".join(lines[start:i]) + "\n"
            if fence[1] == "python":
                found.append(Block(Path(path), start + 1, text, *comment))
            elif fence[1] == "text" and is_next:
                found[-1].shown = text
            is_next = fence[1] == "python"
            comment = ("", "")
        elif lines[i].strip():
            match = _COMMENT.match(lines[i])
            comment = match.groups() if match else ("", "")
            is_next = False
        i += 1
    return found


def run(block, module):
    """Run one block in the namespace of a module.

    Returns
    -------
    str
        Its output; for a block that raises or warns, the error or warning as Python shows it.

    Raises
    ------
    AssertionError
        If the announced error or warning does not occur, or is a different one.
    """
    if block.ends:
        code = compile(block.code, SHOWN_NAME, "exec")
    else:
        code = compile("\n" * (block.line - 1) + block.code, str(block.path), "exec")
    printed = io.StringIO()
    raised = None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=block.ends == "warns") as caught:
        if block.ends == "warns":
            warnings.simplefilter("always")
        try:
            exec(code, vars(module))
        except Exception as error:
            if block.ends != "raises":
                raise
            raised = error
    if block.ends == "raises":
        assert type(raised).__name__ == block.name, f"{block}: {block.name} was announced, and there was {raised!r}"
        return "\n".join([f"{block.name}: {raised}", *getattr(raised, "__notes__", [])])
    if block.ends == "warns":
        assert [w.category.__name__ for w in caught] == [block.name], f"{block}: {block.name} was announced"
        return f"{block.name}: {caught[0].message}"
    return printed.getvalue()


@contextlib.contextmanager
def page_module(path):
    """Create a module for the blocks of a page, registered with the import system while they run, like a script."""
    module = types.ModuleType("page_" + re.sub(r"\W", "_", Path(path).stem))
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]
