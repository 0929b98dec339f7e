"""Progress bars, which need tqdm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(is_shown: bool, name: str, text: str, total: int | None, unit: str) -> Iterator[Callable]:
    """Show a progress bar in a ``with`` block if `is_shown`, and yield the function that advances it.

    `text` stands before the bar, `total` is the number of units if known, and `unit` their name. If tqdm is missing,
    the error message begins with `name`, the function that shows the bar.
    """
    if not is_shown:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(f"{name}: progress=True needs tqdm: pip install tqdm") from None
    with tqdm(total=total, desc=text, unit=unit) as bar:
        yield bar.update
