"""Run long parametrised tests in batches: pytest needs longer to set up forty thousand items than to run them."""

import inspect
import itertools

import pytest

#: minimum number of rows of a test function for batching, and the size of a batch
MANY, RUN = 40, 25


def argument_names(mark):
    """Return the argument names of a parametrisation."""
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return {name.strip() for name in names.split(",")} if isinstance(names, str) else {*names}


def may_batch(rows):
    """Return whether the rows of a function may be batched: only automatic fixtures, no marks."""
    item = rows[0]
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    direct = [mark for mark in item.iter_markers("parametrize") if not mark.kwargs.get("indirect")]
    return (
        not any(row.callspec.marks for row in rows)
        and not hasattr(item.obj, "hypothesis")
        and {*inspect.signature(item.obj).parameters} <= set().union(*map(argument_names, direct))
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Keep the first row of each batch, which runs the others too; ``--one-by-one`` keeps all rows."""
    if config.getoption("one_by_one"):
        return
    kept = []
    for _, group in itertools.groupby(items, lambda item: getattr(item, "obj", item)):
        rows = [*group]
        size = RUN if len(rows) >= MANY and may_batch(rows) else 1
        for start in range(0, len(rows), size):
            first, *more = rows[start : start + size]
            if more:
                first.rows = [first, *more]
                first.name = f"{first.originalname}[{first.callspec.id}, and {len(more)} more]"
                first._nodeid = f"{first.parent.nodeid}::{first.name}"
            kept.append(first)
    items[:] = kept


def pytest_addoption(parser):
    parser.addoption("--one-by-one", action="store_true", help="run each row of a long table as a test of its own")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    rows = getattr(pyfuncitem, "rows", None)
    if rows is None:
        return None
    failures, skipped = [], []
    for row in rows:
        try:
            row.obj(**row.callspec.params)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
            pyfuncitem.user_properties.append(("skipped", f"{row.nodeid}: {reason.msg}"))
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"row [{row.callspec.id}]")
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} rows failed", failures)
    if len(skipped) == len(rows):
        raise skipped[0]
    return True


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "skipped":
                terminalreporter.write_line(f"SKIPPED row of {value}")


@pytest.fixture(autouse=True, scope="session")
def isolated_cache(tmp_path_factory):
    """Keep test data out of the user's cache folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENGERT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


#: test modules in which the IR verifier runs after each pass; everywhere, it would double the time of the suite
VERIFIED = {
    "test_accumulation",
    "test_loop_recovery",
    "test_memory_safety",
    "test_pipeline",
    "test_random_programs",
    "test_vectorise",
}


@pytest.fixture(autouse=True, scope="module")
def verified_passes(request):
    """Verify programs between passes."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in VERIFIED:
            patch.setattr("wengert.program.passes.pipeline.VERIFY", True)
        yield
