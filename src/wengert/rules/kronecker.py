"""Kronecker and cross products."""

from __future__ import annotations

import numpy as np

from wengert.registry import facts, strong, strong_matmul, structural
from wengert.rules import expansions
from wengert.rules.shapes import from_end, leading, moved_axis, ndim_of, raveled, reshaped, shape_of, unbroadcast


def kron_blocks(z, a, b, lead):
    """Reshape `z`, of the shape of ``kron(a, b)``, to matrices with rows for `a` and columns for `b`."""
    n = max(ndim_of(a), ndim_of(b))
    outer = (1,) * (n - ndim_of(a)) + shape_of(a)
    inner = (1,) * (n - ndim_of(b)) + shape_of(b)
    z = reshaped(z, lead + tuple(m for pair in zip(outer, inner, strict=True) for m in pair))
    k = len(lead)
    order = (*range(k), *range(k, k + 2 * n, 2), *range(k + 1, k + 2 * n, 2))
    return reshaped(np.transpose(z, order), (*lead, np.size(a), np.size(b)))


def kron_wrt_left(ybar, y, a, b):
    lead = shape_of(ybar)[: leading(ybar, y)]
    return reshaped(strong_matmul(kron_blocks(ybar, a, b, lead), raveled(b)[:, None]), lead + shape_of(a))


def kron_wrt_right(ybar, y, a, b):
    lead = shape_of(ybar)[: leading(ybar, y)]
    return reshaped(strong_matmul(raveled(a)[None, :], kron_blocks(ybar, a, b, lead)), lead + shape_of(b))


def kron_pattern(deps, a, b):
    """Pattern of ``kron``: elements of either factor where the other is nonzero or traced."""
    parts = []
    for x, y, order in ((a, b, 1), (b, a, -1)):
        if deps.depends(x):
            factor = np.ones(deps.ids(y).shape, bool) if deps.depends(y) else np.not_equal(deps.value(y), 0)
            parts.append(np.kron(*(deps.ids(x), factor.astype(np.int32))[::order]))
    if len(parts) == 2:
        deps.is_done = True
        deps.interact(*parts)
    return deps.united(parts)


structural(np.kron, kron_wrt_left, kron_wrt_right, curvature="cross", dependence=kron_pattern, native="kron")
facts(np.kron, expansion=expansions.kron)


def strong_cross(u, v):
    """Return the cross product along the last axis, with 0 * inf = 0."""
    after, before = (1, 2, 0), (2, 0, 1)
    return np.stack(
        [strong(u[..., i], v[..., j]) - strong(u[..., j], v[..., i]) for i, j in zip(after, before, strict=True)],
        axis=-1,
    )


def cross_axes(axisa, axisb, axisc, axis):
    return (axisa, axisb, axisc) if axis is None else (axis, axis, axis)


def as_3d_vectors(v):
    """Extend 2-D vectors in the last axis by a zero third component."""
    return v if shape_of(v)[-1] == 3 else np.concatenate([v, np.zeros_like(v[..., :1])], axis=-1)


def cross_wrt(ybar, y, x, other, axes, sign):
    """d(a x b) paired with g: the cotangent of `a` is b x g, that of `b` is g x a."""
    axis_x, axis_other, axis_y = axes
    own, u = moved_axis(x, axis_x, -1), moved_axis(other, axis_other, -1)
    if shape_of(own)[-1] == shape_of(u)[-1] == 2:  # the result is the third component, without an axis
        g = np.stack([np.zeros_like(ybar), np.zeros_like(ybar), ybar], axis=-1)
    else:
        g = moved_axis(ybar, from_end(axis_y, ndim_of(y))[0], -1)
    u = as_3d_vectors(u)
    z = strong_cross(u, g) if sign > 0 else strong_cross(g, u)
    z = unbroadcast(z[..., : shape_of(own)[-1]], own, leading(ybar, y))
    return moved_axis(z, -1, from_end(axis_x, ndim_of(x))[0])


def cross_wrt_left(ybar, y, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    return cross_wrt(ybar, y, a, b, cross_axes(axisa, axisb, axisc, axis), 1)


def cross_wrt_right(ybar, y, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    return cross_wrt(ybar, y, b, a, cross_axes(axisb, axisa, axisc, axis), -1)


def cross_pattern(deps, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Pattern of a cross product: each component depends on the other two of both operands."""
    axisa, axisb, axisc = cross_axes(axisa, axisb, axisc, axis)
    a, b = moved_axis(deps.ids(a), axisa, -1), moved_axis(deps.ids(b), axisb, -1)
    is_plane = a.shape[-1] == b.shape[-1] == 2  # the result is the third component, without an axis
    pairs = ((0, 1),) if is_plane else ((1, 2), (2, 0), (0, 1))
    a, b = as_3d_vectors(a), as_3d_vectors(b)
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = [[np.broadcast_to(x[..., k], shape) for k in range(3)] for x in (a, b)]
    deps.is_done = True
    components = []
    for i, j in pairs:
        deps.interact(a[i], b[j])
        deps.interact(a[j], b[i])
        components.append((a[i], b[j], a[j], b[i]))
    if is_plane:
        return deps.united(components[0])
    return deps.united([moved_axis(np.stack(part, axis=-1), -1, axisc) for part in zip(*components)])


structural(np.cross, cross_wrt_left, cross_wrt_right, curvature="cross", dependence=cross_pattern)
structural(
    np.linalg.cross,
    lambda ybar, y, x1, x2, *, axis=-1: cross_wrt(ybar, y, x1, x2, (axis, axis, axis), 1),
    lambda ybar, y, x1, x2, *, axis=-1: cross_wrt(ybar, y, x2, x1, (axis, axis, axis), -1),
    curvature="cross",
    dependence=lambda deps, x1, x2, *, axis=-1: cross_pattern(deps, x1, x2, axis=axis),
)
facts(np.cross, np.linalg.cross, expansion=expansions.cross, scalars="cross")
