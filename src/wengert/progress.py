"""Progress bars, which need tqdm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(is_shown: bool, name: str, text: str, total: int | None, unit: str) -> Iterator[Callable]:
    """Block with a progress bar; yields the function that moves it.

    Parameters
    ----------
    is_shown : bool
        Whether there is a bar; without one the function does nothing.
    name : str
        Name of the function that shows it, for the message if tqdm is missing.
    text, total, unit
        Text before the bar, number of units if known, and their name.
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
