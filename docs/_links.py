"""Links names in prose to their documentation: the first mention of each function on a page.

A name is a literal such as ``wg.loop``, ``np.where(c, a, b)`` or ``scipy.linalg.expm``.  Without a module, as in
``grad(f)`` and ``minimize``, it is a function of wengert, or else one of SciPy's in the inventory.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.intersphinx import InventoryAdapter, missing_reference
from sphinx.util.nodes import make_refnode

import wengert

_CALL = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?")
#: arguments of functions without a module: ``vjp(ybar, y)`` is a rule of the user
_ARGUMENTS = re.compile(r"\((f\b.*|\w+=.*)?\)")
_MODULES = {"wg": "wengert", "np": "numpy", "sp": "scipy.sparse"}
#: modules of SciPy whose functions are mentioned by their name alone
_SOLVERS = ("scipy.integrate.", "scipy.optimize.", "scipy.sparse.linalg.", "scipy.special.", "scipy.interpolate.")
#: pages without links: those for contributors, and tables that name every function
_PLAIN = ("explanation/decisions/", "project/", "reference/coverage", "reference/packages", "performance/")


def full_name(text, scipy):
    """Return the dotted name of a literal, or None if it is none."""
    found = _CALL.fullmatch(text)
    if found is None:
        return None
    first, dot, rest = found[1].partition(".")
    if dot:
        return f"{_MODULES.get(first, first)}.{rest}"
    if found[2] and not _ARGUMENTS.fullmatch(found[2]):
        return None
    return f"wengert.{first}" if first in wengert.__all__ else scipy.get(first)


def reference(app, docname, name, literal):
    """Return a link to a name around a literal, or None if no page documents it."""
    home = app.env.get_domain("py").objects.get(name)
    if home is not None:
        here = home.docname == docname
        return None if here else make_refnode(app.builder, docname, home.docname, home.node_id, literal)
    target = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=name, refexplicit=True)
    return missing_reference(app, app.env, target, literal)


def link_names(app, doctree, docname):
    """Replace the literals of a page by links."""
    if app.builder.format != "html" or docname.startswith(_PLAIN):
        return
    inventory = InventoryAdapter(app.env).named_inventory.get("scipy", {})
    known = [*inventory.get("py:function", {}), *inventory.get("py:class", {})]
    scipy = {name.rpartition(".")[2]: name for name in known if name.startswith(_SOLVERS)}
    linked = set()
    for literal in list(doctree.findall(nodes.literal)):
        parent = literal.parent
        while parent is not None and not isinstance(parent, (nodes.reference, nodes.title, addnodes.desc_signature)):
            parent = parent.parent
        name = full_name(literal.astext(), scipy)
        if parent is not None or name is None or name in linked:
            continue
        link = reference(app, docname, name, literal.deepcopy())
        if link is not None:
            linked.add(name)
            literal.replace_self(link)


def setup(app):
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
