"""Contents of the installed package."""

import importlib.resources
from importlib.metadata import distribution
from pathlib import PurePath

import wengert


def test_package_is_marked_as_typed():
    assert (importlib.resources.files("wengert") / "py.typed").is_file()


def test_version_equals_metadata():
    assert wengert.__version__ == distribution("wengert").version


def test_no_source_of_extension_modules_is_installed():
    files = distribution("wengert").files
    assert files
    sources = {".pyx", ".pxd", ".c", ".h"}
    assert [str(path) for path in files if PurePath(path).suffix in sources] == []
