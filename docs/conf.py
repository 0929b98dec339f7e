"""Configuration of the documentation: ``sphinx-build -W -n docs docs/_build/html``, with wengert installed."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the extensions in this folder


from _gallery import sphinx_gallery_conf  # noqa: F401, read by the extension

import wengert

project = "wengert"
author = "the wengert developers"
copyright = "the wengert developers"
version = release = wengert.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
extensions += ["sphinx.ext.mathjax", "sphinx-mathjax-offline"]
extensions += ["sphinx.ext.intersphinx", "sphinx.ext.viewcode", "sphinx_copybutton", "sphinx_design"]
extensions += ["sphinx_gallery.gen_gallery"]
extensions += ["_accuracy", "_charts", "_coverage", "_figures", "_links", "_special"]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py"]
templates_path = ["_templates"]

# inventories stand in the repository, so that a build needs no network; `_inventories/make.py` writes them
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", "_inventories/numpy.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "_inventories/scipy.inv"),
}

html_theme = "furo"
html_title = f"wengert {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wengert.css"]
html_theme_options = {"navigation_with_keys": True}

copybutton_exclude = ".linenos, .gp, .go"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # docstrings state types and shapes
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autosummary_generate = True


def escape_shapes(app, what, name, obj, options, lines):
    """Escape shapes such as ``(*T, *S)`` in docstrings, which Sphinx would read as the start of an emphasis."""
    lines[:] = [re.sub(r"(?<!`)\(([^()`]*\*[TS][^()`]*)\)", lambda m: m[0].replace("*", r"\*"), line) for line in lines]


def hide(app, doctree):
    """Leave decisions, which are written for contributors, and release notes out of the search of the site."""
    if app.env.docname.startswith(("explanation/decisions/", "project/changes")):
        app.env.metadata[app.env.docname]["nosearch"] = ""


def setup(app):
    app.connect("autodoc-process-docstring", escape_shapes, priority=100)  # before numpydoc
    app.connect("doctree-read", hide)
