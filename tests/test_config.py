"""`show_config`: what a bug report should contain."""

import numpy as np
import pytest

import wengert as wg


def test_show_config_states_versions():
    versions = wg.show_config("dicts")["versions"]
    assert versions["wengert"] == wg.__version__
    assert versions["numpy"] == np.__version__


def test_missing_packages_are_named(monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert wg.show_config("dicts")["optional"]["tqdm"] == "not installed (progress bars)"


def test_show_config_states_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("WENGERT_DISABLE", "cse")
    with wg.follow("somepackage.plots", False):
        settings = wg.show_config("dicts")["settings"]
    assert settings["cache"] == settings["WENGERT_CACHE_DIR"] == str(tmp_path)
    assert settings["WENGERT_DISABLE"] == "cse"
    assert "followed" in settings


def test_report(capsys):
    assert wg.show_config() is None
    printed = capsys.readouterr().out
    for name, section in wg.show_config("dicts").items():
        assert f"{name}:\n" in printed
        assert all(value in printed for value in section.values())


def test_unknown_mode_raises():
    with pytest.raises(ValueError, match="show_config: mode is 'stdout' or 'dicts', not 'html'"):
        wg.show_config("html")
