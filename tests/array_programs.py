"""Programs on a vector of three numbers that write in place, use views, index and broadcast: one table for all modes.

Each also runs on complex input, so the complex step gives its Jacobian.
"""

import copy

import numpy as np

X = np.array([0.3, 0.8, 0.5])
PROGRAMS = {}


def program(f):
    """Register the decorated program in the table."""
    PROGRAMS[f.__name__] = f
    return f


# ---------------------------------------------------------------------------------- buffers, slices, views


@program
def elements_stored_in_zeros(x):
    F = np.zeros(3, x.dtype)
    F[0] = x[0] * x[1]
    F[1] = x[2] ** 2
    F[2] = F[0] * F[1]
    return F


@program
def slices_added_and_scaled(x):
    F = np.zeros(4, x.dtype)
    F[1:] = x * x
    F[:-1] += F[1:] * x
    F[::2] *= x[0]
    return F


@program
def part_filled_with_a_number(x):
    F = x * x
    F[1:] = x[0] * 3.0
    F[0] = F[0] * F[1] + x[2]
    G = F * x
    G[:2] = x[1]
    return G[0] * G[1] * G[2] * F[0]


@program
def views_of_views(x):
    F = np.zeros(4, x.dtype)
    v = F[1:3]
    v[:] = x[:2] ** 2
    v *= x[1]
    w = v[::-1]
    w[0] += x[2] * w[1]
    return F


@program
def overlapping_stores(x):
    a = x * x
    a[1:] = a[:-1]
    a[:-1] += a[1:] * x[0]
    a[::-1] = a * a
    return a


@program
def overlapping_stores_in_a_longer_buffer(x):
    a = np.zeros(5, x.dtype)
    a[:3] = x
    a[2:] = a[:3]
    a[1:4] *= a[:3]
    a[:] = a[::-1] * x[0]
    return a


@program
def stores_of_an_array_into_itself(x):
    a = x**2
    a[:] = a[::-1]
    a += a[::-1] * x
    a[:2] = a[1:]
    a[1:] = a[:2]
    a[...] = a
    a[:] = a * a[0]
    return a


@program
def steps_of_two(x):
    a = np.concatenate([x, x * x])
    a[1:4] += a[:3]
    a[:-1] -= a[1:]
    a[::2] *= a[1::2]
    a[2:5][::-1] = a[:3]
    return a


@program
def scalars_and_slices_in_turn(x):
    F = np.zeros(3, x.dtype)
    for i in range(3):
        F[i] = x[i] * x[(i + 1) % 3]
        F *= 2
        y = F[1:3]
        y += x[:2]
    return F


@program
def rows_from_the_rows_before(x):
    a = np.zeros((4, 3), x.dtype)
    a[0] = x
    for i in range(3):
        a[i + 1] = a[i] * x + a[i, 0] * a[i][::-1]
    return a[-1]


@program
def rows_and_columns_as_views(x):
    a = np.zeros((2, 3), x.dtype)
    b = a[0]
    c = a[:, 1]
    b[:] = x
    c[1] = b[1] * x[2]
    c *= b[0]
    return a + a[::-1]


@program
def a_view_by_two_indices(x):
    a = np.zeros((2, 2), x.dtype)
    a[0][1] = x[0]
    a[1, 0] = a[0][1] * x[1]
    a[1][:] = a[:, 1] * x[2]
    return a


@program
def transposed_views_written(x):
    m = np.outer(x, x**2)
    m.T[0] = x
    m += m.T * x[0]
    n = m.swapaxes(0, 1)[::-1]
    n[0] *= 2
    m.T[...] = m * x
    return m


@program
def views_of_three_axes(x):
    m = np.zeros((2, 2, 3), x.dtype)
    v = m.transpose(2, 0, 1)
    v[0] = x[0]
    v[1, 1] = x[:2]
    w = m.reshape(4, 3)
    w[3] *= x
    w[::2, 1] += x[1]
    return m


@program
def a_reshaped_view_written(x):
    m = np.zeros(6, x.dtype)
    r = m.reshape(2, 3)
    r[1] = x
    r[0] = x * r[1]
    m[1:4] *= x[0]
    return m


@program
def a_raveled_copy_written(x):
    m = np.outer(x, x)
    r = m.T.ravel()
    r[0] = x[0]
    return r * m.ravel()


@program
def fortran_order(x):
    m = np.asfortranarray(np.outer(x, x))
    m[0] *= x
    m.T[1] += x
    b = np.zeros((3, 2), x.dtype, order="F")
    b[:, 0] = x
    b[1] = x[:2] ** 2
    return np.concatenate([m.ravel(order="F") * np.ravel(m.T), b.T @ x])


@program
def negative_strides(x):
    a = x[::-1]
    b = (a * a)[::-1]
    b[::-1] *= x
    return b[::2]


@program
def new_axes_written(x):
    a = np.zeros((3, 1, 2), x.dtype)
    a[:, 0, :] = x[:, None]
    a[..., 0] *= x[None].T
    a[1, ...] += x[2]
    return a


# ---------------------------------------------------------------------------------- advanced indices


@program
def elements_at_repeated_indices(x):
    m = np.outer(x, x)
    return x[[2, 0, 2]] * x[[0, 0, 1]] + m[[0, 2], [1, 1]][[0, 1, 1]] + m[1:, [0, 2]][:, 1].sum()


@program
def stored_at_indices(x):
    a = x * x
    a[[0, 2]] = a[[2, 0]] * x[1]
    a[[0, 0, 2]] = x * a[0]
    a[[0, 0, 2]] += x
    return a


@program
def indices_and_slices(x):
    m = np.outer(x, x) + 0 * x[0]
    m[1:, [0, 0, 2]] = np.outer(x[:2], x) ** 2
    m[[0, 1], :] *= x
    m[:, [1]] = x[:, None] * 2 * x[0]
    return m


@program
def indices_apart(x):
    m = np.zeros((2, 3, 4), x.dtype)
    m[[0, 1], :, [1, 2]] = np.outer(x[:2], x) ** 2
    m[0, :, [0, 3]] = np.outer(x[:2], x)
    m[:, [True, False, True], 0] = x[0] * x[1]
    return m * x[0]


@program
def indices_broadcast(x):
    m = np.outer(x, x)
    m[[0, 2]] = x
    m[:, [0, 1]] = x[:, None] * x[0]
    m[[[0], [1]], [1, 2]] = x[0]
    return m


@program
def elements_at_a_mask(x):
    return x[np.real(x) > 0.4] ** 2


@program
def stored_at_a_mask(x):
    a = x * x
    mask = np.real(x) > 0.4
    a[mask] = x[mask] * x[0]
    a[~mask] *= 2
    a[np.real(a) > 0.2] = x[1]
    return a * x


@program
def a_mask_of_two_axes(x):
    m = np.outer(x, x)
    mask = np.real(m) > 0.2
    m[mask] = m[mask] ** 2
    return m


@program
def an_empty_mask(x):
    a = x * x
    mask = np.zeros(3, dtype=bool)
    a[mask] = x[mask] * 2
    return a * x


@program
def index_arrays_changed_afterwards(x):
    index, mask, places = np.array([0, 1]), np.array([True, False, True]), [0, 1]
    z = x[index] * x[:2]
    index[0] = 2
    w = x * 1.0
    w[mask] = z
    mask[:] = False
    w[places] *= 2
    places[0] = 2
    return w * w


@program
def rows_and_elements_swapped(x):
    a = x * x
    a[0], a[2] = a[2], a[0]
    a[[0, 1]] = a[[1, 0]]
    m = np.outer(a, x)
    t = m[0].copy()
    m[0] = m[1]
    m[1] = t * x
    return m


@program
def keys_of_all_kinds(x):
    a = np.zeros(3, x.dtype)
    a[...] = x[0]
    a[1:] += x[1]
    a[np.int64(1)] += x[np.int8(0)]
    a[np.array([True, False, False])] += x[0] ** 2
    a[()] *= x
    a[None, 0] = a[1]
    a[[]] = 5.0
    a[:0] = 1.0
    a[-1:] += a[:1]
    a[slice(0, 2)] *= a[slice(1, 3)]
    return a


@program
def keys_that_are_arrays_of_no_axes(x):
    a = x * x
    a[np.array(2)] = x[0] * a[np.array(0)]
    a[np.array(1)] *= x[1]
    m = np.outer(a, x)
    m[np.array(0), np.array(1)] += x[2]
    m[np.array(1), :] = x
    return m


@program
def keys_of_two_axes(x):
    m = np.outer(x, x)
    m[(0, 1), (1, 2)] += x[:2]
    m[np.ix_([0, 2], [0, 1])] *= x[0]
    m[np.array([[0, 1], [1, 2]]), 0] = np.outer(x[:2], x[1:])
    m[..., [0, 0]] += x[:, None]
    m[None, ..., -1] = x**3
    m[:, np.array([False, True, True])] -= x[:, None]
    m[np.triu_indices(3)] **= 2
    return m


@program
def stores_that_broadcast(x):
    m = np.zeros((2, 3, 2), x.dtype)
    m[...] = x[:, None]
    m[0] = x[0]
    m[:, 1] = x[:2]
    m[1, :, 0] += x
    m[:, :, 1] *= x[None]
    m[0, [0, 2]] = x[:1]
    m[:, [1]] = np.reshape(x[:2], (1, 1, 2))
    m[1] *= np.reshape(x, (1, 3, 1))[0]
    return m


@program
def cholesky(x):
    A = np.outer(x, x) + 3 * np.eye(3)
    L = np.zeros((3, 3), x.dtype)
    for i in range(3):
        for j in range(i + 1):
            s = A[i, j] - np.sum(L[i, :j] * L[j, :j])
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return L


@program
def two_buffers_exchanged(x):
    u = np.zeros((3, 4), x.dtype)
    v = np.empty_like(u)
    u[0, :3] = x
    u[2, 1:] = x * x
    for _ in range(3):
        v[1:-1] = u[:-2] + u[2:] - 2 * u[1:-1]
        v[0] = u[0]
        v[-1] = u[-1] * x[0]
        u, v = v, u
        u[:, 1:] *= v[:, :-1] + 1
    return u


@program
def states_in_a_dict(x):
    state = {"q": x[:2] * 1.0, "p": [x[2], x[0] * x[1]]}

    def step():
        state["q"] += 0.1 * state["p"][0]
        state["p"][0] -= 0.1 * state["q"][1] ** 2
        state["p"][1] *= state["p"][0]

    for _ in range(4):
        step()
    return np.concatenate([state["q"], np.array(state["p"])])


# ---------------------------------------------------------------------------------- scalars and 0-d arrays


@program
def an_array_of_no_axes(x):
    a = np.zeros((), x.dtype)
    a[()] = x[0] * x[1]
    a *= x[2]
    a += x[0]
    b = np.array(x[0])
    c = b
    c += x[1]
    return a * x + b * x[2]


@program
def numbers_are_never_written(x):
    t = x[0] * x[1]
    u = t
    u += 1
    u *= x[2]
    a, b, c = x * x
    a += b
    b *= a
    s = np.sum(x * x)
    r = s
    s += x[0]
    s /= 2
    return np.stack([t, u, a, b, c, s * r, x[0]])


@program
def numbers_read_before_a_store(x):
    a = x * x
    t = a[0]
    a[0] = 5.0
    a[1] *= t
    s = a[1]
    a[1] = a[2]
    a *= 3
    r = a[0]
    a[:] = x
    return a * t * s + r


@program
def results_of_functions_are_never_written(x):
    s = np.sin(x[0])
    t = s
    t *= 2
    u = np.exp(s)
    w = u
    w -= 1
    d = x @ x
    e = d
    e -= d / 2
    p = +s
    p += 1
    return np.stack([s, t, u, w, d, e, p])


@program
def copies_are_their_own(x):
    n = x[0] * 1.0
    m = copy.deepcopy(n)
    m *= 2
    a = x * 1.0
    b = copy.copy(a)
    b += 1
    c = copy.deepcopy(a)
    c *= 2
    e = np.array(a)
    e *= e
    f = np.asarray(a)
    f += 1
    return a * b * c + e + m * n


@program
def elements_in_containers(x):
    places = [x[0]] * 3
    places[0] += 1
    places[1] *= 2
    sums = {}
    for i, v in enumerate(x):
        sums[i % 2] = sums.get(i % 2, 0) + v * v
    sums[0] += sums[1]
    return [*places, sums[0], x[1] * sums[1]]


@program
def forms_of_a_number(x):
    s = (x * x)[0]
    return np.stack(
        [s[()], s[...] * 1.0, np.sum(s), s.sum(), s.reshape(1)[0], np.squeeze(s), s.T, s.copy(), np.atleast_1d(s)[0]]
    )


@program
def powers_of_numbers(x):
    a, b, c = x
    return np.stack([a**b, a**2, 2.0**c, c**-1, b**0.5, (a - 5) ** 3, np.float64(2) ** a])


@program
def a_long_loop_over_numbers(x):
    s = x[0]
    for _ in range(30):
        s = np.sin(s) * x[1] + x[2]
    return s * x


@program
def augmented_assignment(x):
    a = x * x
    a += x
    a -= x[0]
    a *= x
    a /= 1 + x * x
    a **= 2
    a[0] *= a[1]
    a[-1] /= 1 + a[0] * a[0]
    a[0] **= 2
    return a


# ---------------------------------------------------------------------------------- array creation


@program
def arrays_of_numbers(x):
    a = np.array([x[0] * x[1], 1.0, x[2] ** 2]) * x[0]
    b = np.array([[x[0], x[1]], [0.0, x[2] * x[0]]]) @ np.array([x[0], 2.0])
    return np.concatenate([a, b, [1.0], x[::-1] * x[0], np.append(x, [x[0], 1.0])])


@program
def a_list_of_numbers(x):
    return [x[0] * x[1], 1.5, x[0] ** 3]


@program
def full_empty_and_ones(x):
    a = np.empty_like(x)
    a[:] = x
    a[0] = a[1] * a[2]
    b = np.ones_like(a)
    b[1:] *= x[1:]
    return np.concatenate([a * b, np.full((2, 2), x[0]) @ np.full(2, x[1])])


@program
def filled(x):
    a = x * x
    b = a * 1.0
    a.fill(x[0])
    a[1] = x[1]
    b.fill(2.0)
    b[:1] = a[1:2]
    return a * b * x


@program
def results_given_by_out(x):
    a = x * x
    np.multiply(a, x, out=a)
    np.add(a, x[0], out=a)
    np.sin(a, out=a)
    F = np.zeros(6, x.dtype)
    np.multiply(x, x, out=F[::2])
    np.exp(x, out=F[1::2])
    np.sum(np.outer(x, x), axis=0, out=F[:3])
    np.subtract(F[:3], a, out=a)
    return np.concatenate([a, F])


@program
def copied_and_filled_by_functions(x):
    a = np.zeros(3, x.dtype)
    np.copyto(a, x * x[0])
    np.copyto(a, x, where=[True, False, True])
    m = np.outer(x, x)
    np.fill_diagonal(m, x)
    i = np.arange(3)
    m[i, i] *= a
    return m @ a


@program
def added_at_repeated_indices(x):
    a = x * x
    np.add.at(a, [0, 0, 2], x)
    return a * x


@program
def overwritten_after_use(x):
    a = x * x
    y = np.sin(a) * a
    b = a * 1.0
    a *= 0
    a += b * b
    return y * a


# ---------------------------------------------------------------------------------- broadcasting


@program
def broadcast_in_all_ways(x):
    a = x[:, None] * np.array([1.0, 2, 3, 4]) + x[0]
    b = x[0] * np.array([[1.0], [2.0]]) * x + x[None, :] / (x[:, None] ** 2 + 1)[:2]
    c = np.broadcast_to(x, (2, 3)) * np.broadcast_to(x[:, None], (3, 2)).T
    return np.concatenate([a.ravel(), b.ravel(), c.ravel()])


@program
def broadcast_in_place(x):
    m = np.zeros((3, 3), x.dtype)
    m += x
    m *= x[:, None]
    m[1] += x[0]
    m[:, 2] -= x
    m[:2, :2] = x[0]
    return m


@program
def empty_arrays(x):
    a = x[:0]
    b = np.concatenate([a, x * x])
    b[3:] = a
    return np.sum(a) + b + np.sum(x[3:] ** 2)


@program
def constants_changed_afterwards(x):
    index = np.array([2, 0])
    z = np.take(x, index)
    index[:] = 1
    c = np.array([2.0, 3.0, 4.0])
    u = x * c
    c[:] = 0
    d = np.array([1.0, 1.0, 1.0])
    e = d @ x
    d *= 5
    return u * z[0] * e + z[1]


# ---------------------------------------------------------------------------------- methods that write


@program
def methods_that_write_in_place(x):
    a = np.concatenate([x * x, x])
    a.sort()
    a[::-1].sort()
    m = a.reshape(2, 3)
    m.sort(axis=0)
    m.put([0, 4], x[:2] * x[2])
    m[1].partition(1)
    return m * x


@program
def elements_of_flat_arrays(x):
    m = np.outer(x, x)
    m.T.flat[1] = x[0] ** 3
    m.flat[[0, -1]] *= x[:2]
    m.flat[2:8:2] = [x[1], 5.0]
    n = x.reshape(3, 1) * x
    n.flat = x**2
    return m * n * sum(m.flat) + m.flat[4]


@program
def a_number_summed(x):
    a = x[1:2].reshape(())
    return np.exp(a.sum() * x) + np.sum(x[0])


@program
def a_number_indexed_by_an_ellipsis(x):
    a = x[0][...]
    return np.concatenate([np.ravel(a) ** 2, x[1][None] * x[2][..., None]])


@program
def nothing_written_backwards(x):
    m = np.asfortranarray(x[None] * x)
    m[:-1, ::-1] -= 1.0
    return np.concatenate([np.ravel(m**2 + np.sum(m[1:, ::-1])), np.ravel(x[3:].reshape((2, 0))[1:])])


@program
def copies_in_an_order(x):
    m = np.outer(x, x[:2])
    a = np.array(m, order="F")
    b = np.asarray(m.T, order="C")
    b[0] *= x
    c = np.array([x, x * x], order="F")
    return a.T.ravel(order="K") * b.ravel(order="K") + a.ravel(order="K") * c.ravel("K")


@program
def a_part_in_the_order_of_its_memory(x):
    m = np.outer(x, x)[:, :2]
    return m.T.ravel(order="K") * m.ravel(order="K") + np.sin(m[::-1]).T.ravel("K")
