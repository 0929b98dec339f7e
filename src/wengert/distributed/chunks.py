"""Chunks: rows of arrays, and the data that a worker loads.

A chunk is data, or refers to data: a file, a part of an array that is stored in pieces (Zarr, HDF5), a Dask collection,
or a function. `loaded` returns the data, in a layout that does not depend on where the chunk is computed.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np


def check_chunks(chunks: Any) -> None:
    """Raise unless chunks can be iterated over more than once."""
    if isinstance(chunks, (str, bytes, os.PathLike)):
        raise TypeError(f"sum_over: chunks is a list of chunks, such as [{str(chunks)!r}], not the name of one")
    if hasattr(chunks, "__dask_graph__"):
        raise TypeError(
            "sum_over: chunks is a list of chunks, not a collection of Dask: pass split_rows(array, rows=...), "
            "collection.to_delayed().ravel().tolist(), or list(collection.partitions)"
        )
    if not callable(chunks) and (not isinstance(chunks, Iterable) or isinstance(chunks, Iterator)):
        raise TypeError(
            "sum_over: chunks is a list or another object that can be iterated over more than once, or a function "
            f"that returns an iterator, not {type(chunks).__name__}"
        )


# ---- in the driver


class Rows(Sequence):
    """Chunks of consecutive rows; made by `split_rows`."""

    def __init__(self, arrays: tuple, rows: int):
        self.arrays, self.rows = arrays, rows
        self.count = _length(arrays[0])

    def __len__(self):
        return -(-self.count // self.rows)

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        start = (i % len(self)) * self.rows
        stop = min(start + self.rows, self.count)
        if any(map(_is_stored, self.arrays)):
            return StoredRows(self.arrays, start, stop)
        found = tuple(_cut(array, start, stop) for array in self.arrays)
        return found if len(found) > 1 else found[0]


class StoredRows:
    """A chunk of rows of arrays, some of which are stored in pieces and read by the worker."""

    def __init__(self, arrays: tuple, start: int, stop: int):
        self.arrays = tuple(x if _is_stored(x) else _cut(x, start, stop) for x in arrays)
        self.start, self.stop = start, stop

    def __call__(self):
        found = tuple(_cut(x, self.start, self.stop) if _is_stored(x) else x for x in self.arrays)
        return found if len(found) > 1 else found[0]


def _cut(x, start, stop):
    return (x.iloc if hasattr(x, "iloc") else x)[start:stop]  # pandas: by position, not by label


def _length(x):
    shape = getattr(x, "shape", None)
    return shape[0] if shape else len(x)


def _is_stored(x):
    """Return whether an array is read piece by piece, such as an array of zarr or h5py."""
    return hasattr(x, "chunks") and hasattr(x, "shape") and not _is_dask(x)


def split_rows(*arrays: Any, rows: int) -> Rows:
    """Split arrays into chunks of rows, for `sum_over`. The chunks are views, so nothing is copied or read from a file.

    Parameters
    ----------
    *arrays : array
        Arrays of the same length. Workers read their rows of an array of Zarr or h5py, and compute those of a Dask
        array.
    rows : int
        Number of rows in a chunk; the last one may have fewer.

    Returns
    -------
    Rows
        A sequence of arrays, or of tuples of arrays if there are several.

    Raises
    ------
    ValueError
        If the lengths differ, or `rows` is not positive.

    See Also
    --------
    sum_over : Sum a function over chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from wengert.distributed import split_rows
    >>> [len(x) for x in split_rows(np.arange(10), rows=4)]
    [4, 4, 2]
    """
    lengths = {_length(array) for array in arrays}
    if len(lengths) != 1 or rows < 1:
        raise ValueError(
            f"split_rows: expected arrays of one length and a positive number of rows, got {lengths}, {rows}"
        )
    return Rows(arrays, rows)


def sendable(chunk: Any) -> Any:
    """Return a chunk with Dask graphs reduced to what it needs: a slice holds the graph of its whole array."""
    if _is_future(chunk) or (_is_dask(chunk) and _futures_in(chunk)):
        raise TypeError(f"sum_over: a chunk is, or consists of, {_ON_CLUSTER}")
    if _is_dask(chunk):
        return sys.modules["dask"].optimize(chunk)[0]
    return type(chunk)(map(sendable, chunk)) if type(chunk) in (list, tuple) else chunk


def _is_dask(x):
    return hasattr(x, "__dask_graph__") and "dask" in sys.modules


_ON_CLUSTER = (
    "a future of Dask, which tasks cannot read: pass a collection that is not persisted, or a function that loads the "
    "data"
)


def _is_future(x):
    """Return whether this is a future that stands for data on a Dask cluster."""
    return type(x).__module__.partition(".")[0] == "distributed" and hasattr(x, "result")


def _futures_in(collection):
    distributed = sys.modules.get("distributed")
    return [] if distributed is None else distributed.futures_of(collection)


# ---- in the worker


def loaded(chunk: Any) -> Any:
    """Return the data of a chunk: loads files, calls callables, and gives arrays the layout that pickling gives them.

    The layout decides the bits of sums and products, which must not depend on where a chunk is computed.
    Arrays are read-only: if a pass wrote into a chunk, the next pass would see other values, but only in the driver.
    """
    if isinstance(chunk, (str, os.PathLike)):
        chunk = _read(chunk)
    elif callable(chunk) and not _is_dask(chunk):  # a delayed object of Dask is callable
        chunk = chunk()
    return laid_out(chunk)


def laid_out(chunk: Any) -> Any:
    """Return read-only contiguous arrays; memory-mapped arrays become plain views of the file."""
    if _is_dask(chunk):
        chunk = chunk.compute(**({} if _futures_in(chunk) else {"scheduler": "synchronous"}))
    elif _is_future(chunk):
        chunk = chunk.result()
    elif _is_stored(chunk):
        chunk = chunk[...]
    if isinstance(chunk, np.memmap) or type(chunk) is np.ndarray:
        chunk = np.asarray(chunk)
        chunk = chunk.view() if chunk.flags.forc else np.ascontiguousarray(chunk)
        chunk.flags.writeable = False
        return chunk
    if isinstance(chunk, dict):
        return {key: laid_out(value) for key, value in chunk.items()}
    if type(chunk) in (list, tuple):
        return type(chunk)([laid_out(item) for item in chunk])
    return chunk


def _read(path):
    """Return the array of a file, or a dict of its arrays by name."""
    read = READERS.get(os.path.splitext(path)[1])
    if read is None:
        raise ValueError(
            f"sum_over reads {', '.join(READERS)}, not {path}: pass functools.partial(load, {str(path)!r})"
        )
    return read(path)


def _npz(path):
    with np.load(path) as archive:
        return dict(archive)


def _zarr(path):
    found = importlib.import_module("zarr").open(os.fspath(path), mode="r")
    return found if hasattr(found, "shape") else dict(found.arrays())


def _parquet(path):
    table = importlib.import_module("pyarrow.parquet").read_table(os.fspath(path))
    return {name: table[name].to_numpy() for name in table.column_names}


#: functions that read a file, by its suffix
READERS: dict[str, Callable[[Any], Any]] = {
    ".npy": np.load,
    ".npz": _npz,
    ".zarr": _zarr,
    ".parquet": _parquet,
}
