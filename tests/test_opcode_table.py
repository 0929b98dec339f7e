"""The opcode table agrees with the C sources that it describes and with every stage that reads it."""

import itertools
import math

import numpy as np
import pytest
from wengert.core.tape.tape import kernel_formulas, kernel_rows
from wengert.program.ir.ir import Listing, columns_named, operands
from wengert.program.ir.opcodes import Op
from wengert.program.passes.simplify import folded, live

from wengert.program.codegen import kernels, llvm_ir
from wengert.program.ir import opcode_table, verify
from wengert.program.ir.opcode_table import ELEMENTWISE, FLAGS, OPCODES, ROWS, function, opcodes, primitive
from wengert.program.ir.printer import formula
from wengert.program.ir.reference import evaluated
from wengert.program.jacobian import accumulate
from wengert.program.passes import batching
from wengert.program.tracing.trace import listed
from wengert.program.vm import machine
from wengert.sparse import propagation

FLOAT = np.dtype(float)
FULL = {
    "result": "elementwise", "access": "elements", "cost": "arithmetic", "lowering": "elementwise",
}  # fmt: skip

WRONG = {
    "a missing column": (("value", "", ""), {k: v for k, v in FULL.items() if k != "cost"}, "has no column cost"),
    "an unknown column": (("value", "", ""), {**FULL, "colour": 3}, "has the unknown column colour"),
    "an unknown value": (("value", "", ""), {**FULL, "access": "sometimes"}, "has 'sometimes' in access"),
    "an unknown operand": (("valu", "", ""), FULL, "has 'valu' in columns"),
    "two operand columns": (("value", ""), FULL, "does not have three operand columns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_incomplete_row_raises_and_names_the_cause(case):
    columns, others, message = WRONG[case]
    with pytest.raises(TypeError) as caught:
        opcode_table.row(2000, "thing", *columns, **others)
    assert str(caught.value) == f"opcode table: the row of thing {message}"


def test_second_row_for_an_opcode_raises():
    with pytest.raises(TypeError, match="the row of sin is a duplicate"):
        opcode_table.row(OPCODES["sin"], "sin", "value", "", "", **FULL)


# ---------------------------------------------------------------------------------------------- the C sources


def test_table_has_exactly_one_row_per_enum_value():
    found = {int(op) for op in Op if op not in (Op.PARTIAL, Op.OPS)}
    for _, opcode, arity, *_ in kernel_rows():
        found |= {opcode, *(Op.PARTIAL + 2 * opcode + side for side in range(arity))}
    assert set(ROWS) == found
    assert all(op == row.opcode for op, row in ROWS.items())
    assert set(OPCODES.values()) == {row[1] for row in kernel_rows()} == opcodes(function=tuple(functions()))


def functions():
    return {ROWS[opcode].function for opcode in OPCODES.values()}


def test_functions_and_partials_read_what_their_c_rows_declare():
    for _, opcode, arity, *reads in kernel_rows():
        assert ROWS[opcode].mask == (1, 3)[arity - 1]
        assert len(kernel_formulas()[opcode]) == 1 + arity
        for side in range(arity):
            columns = ROWS[Op.PARTIAL + 2 * opcode + side].columns
            assert sum(1 << k for k, holds in enumerate(columns) if holds == "value") == reads[side]


def test_vm_has_an_opcode_for_each_elementwise_row_with_as_many_operands():
    found = dict(machine.OPCODES.values())
    missing = [ROWS[op].name for op in opcodes(lowering="elementwise") if op not in found]
    assert missing == []
    assert all(found[op] == ROWS[op].arity for op in opcodes(lowering="elementwise"))


# ---------------------------------------------------------------------------------------------- the stages


@pytest.mark.parametrize("op", sorted(ROWS), ids=lambda op: ROWS[op].name)
def test_columns_of_the_ir_are_those_of_the_table(op):
    assert columns_named(op) == ROWS[op].mask


STAGES = {
    "batching": (batching._RULES, opcodes(access=("memory", "overwrites", "alias")) | {Op.SUM}),
    "accumulation": (accumulate._RULES, opcodes(has_derivative=True) - opcodes(result="elementwise") | {Op.SELECT}),
    "patterns": (propagation.RULES, set(ROWS) - ELEMENTWISE - {Op.LOAD, Op.GUARD}),
    "verification": (verify._RULES, opcodes(result=("declared", "scalar"))),
    "formulas": (llvm_ir.NAMES, {op for op in ELEMENTWISE if op < Op.PARTIAL or op >= Op.INPUT}),
}


@pytest.mark.parametrize("stage", STAGES)
def test_stage_has_a_rule_for_each_opcode_that_it_meets(stage):
    rules, expected = STAGES[stage]
    assert {int(op) for op in rules} == {int(op) for op in expected}


def test_boolean_results_match_their_functions():
    for op in opcodes(lowering="elementwise"):
        if ROWS[op].function.startswith("numpy."):
            given = [np.array([0.5])] * ROWS[op].arity
            with np.errstate(invalid="ignore"):
                assert (function(op)(*given).dtype == bool) == (op in FLAGS), ROWS[op].name


SPECIAL = [0.0, -0.0, 1.0, -2.5, 3e-310, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("op", sorted(opcodes(is_commutative=True)), ids=lambda op: ROWS[op].name)
def test_commutative_rows_give_same_bits_with_swapped_operands(op):
    for a, b in itertools.product(SPECIAL, repeat=2):
        with np.errstate(all="ignore"):
            one, other = (np.float64(function(op)(np.float64(x), np.float64(y))) for x, y in ((a, b), (b, a)))
        assert one.tobytes() == other.tobytes() or np.isnan([one, other]).all()


def test_rules_are_found_by_opcode():
    assert primitive(OPCODES["**"]) is primitive(OPCODES["power"])
    assert function(OPCODES["sin"]) is np.sin
    with pytest.raises(TypeError, match="dsin/da is computed on float64 values only"):
        function(Op.PARTIAL + 2 * OPCODES["sin"])


TEXTS = [
    ((Op.INPUT, 0), "input 0"),
    ((Op.CONST, 0), "1.5"),
    ((OPCODES["sin"], 0), "sin(v0)"),
    ((OPCODES["**"], 0, 1), "**(v0, v1)"),
    ((OPCODES["scipy.special.erf"], 0), "erf(v0)"),
    ((Op.PARTIAL + 2 * OPCODES["divide"] + 1, -1, 0, 1), "ddivide/db(v0, v1)"),
    ((Op.SELECT, 0, 1, 1), "select(v0, v1, v1)"),
    ((Op.STRONG, 0, 1), "strong(v0, v1)"),
    ((Op.STOP, 0), "stop(v0)"),
]


@pytest.mark.parametrize(("row", "expected"), TEXTS, ids=[text for _, text in TEXTS])
def test_instruction_prints_by_the_text_of_its_row(row, expected):
    code = Listing()
    code.filled(1.5, ())
    assert formula(code, 0, (*row, *[-1] * (4 - len(row)), 0)) == expected


# ---------------------------------------------------------------------------------------------- C expressions

EXPRESSIONS = [
    ("-y * y", "-y * y"),
    ("y == 0.0 ? 0.0 : a / y", "where(y == 0.0, 0.0, a / y)"),
    ("b != b || a >= b ? a : b", "where((b != b) | (a >= b), a, b)"),
    ("a > 0.0 && b > 0.0 ? a : a < b ? 1.0 : f(a, b)", "where((a > 0.0) & (b > 0.0), a, where(a < b, 1.0, f(a, b)))"),
]


@pytest.mark.parametrize(("c", "python"), EXPRESSIONS)
def test_c_expression_is_translated(c, python):
    assert kernels.translated(c) == python


def names_called(formula):
    """Return the names in a formula, and in the functions of helpers.h that it calls."""
    found = set(formula.__code__.co_names)
    translated = kernels.names().keys() - kernels.C_NAMES.keys() - {"where"}
    return found.union(*[names_called(kernels.names()[name]) for name in found & translated])


FUNCTIONS = [
    ("double f(double a) { return -a; }", "def f(a):\n    return -a\n"),
    (
        "double f(double a, double b) { if (a != a || b > 1.0) return b; if (b == 0.0) return 1.0; return g(a, b); }",
        "def f(a, b):\n    return where((a != a) | (b > 1.0), b, where(b == 0.0, 1.0, g(a, b)))\n",
    ),
    (
        "double f(double a) { const double t = g(a, 2.0), s = t * t; double u; u = s + t, u = u * a; return u; }",
        "def f(a):\n    t = g(a, 2.0)\n    s = t * t\n    u = s + t\n    u = u * a\n    return u\n",
    ),
]


@pytest.mark.parametrize(("c", "python"), FUNCTIONS)
def test_c_function_is_translated(c, python):
    assert kernels.function_translated(c) == python


def test_c_expressions_use_only_names_known_to_code_generators():
    for opcode, formulas in kernel_formulas().items():
        for formula_of in map(kernels.Formula, formulas):
            assert names_called(formula_of.function) <= kernels.names().keys(), ROWS[opcode].name


def test_constants_of_c_expressions_match_the_header():
    x = [np.float64(1.0)]
    for name, value in (("deg2rad", "WG_DEGREE"), ("rad2deg", "WG_RADIAN"), ("exp2", "WG_LN2")):
        code = Listing()
        v = code.add(Op.INPUT, (FLOAT, (), None), 0)
        y = code.filled(1.0, ())
        code.inputs, code.outputs = [v], []
        code.add(Op.PARTIAL + 2 * OPCODES[name], (FLOAT, (), None), v, -1, y)
        assert evaluated(code, x)[-1] == kernels.C_NAMES[value]


@pytest.mark.parametrize("name", OPCODES)
def test_rule_of_a_partial_reads_no_value_that_its_instruction_does_not_hold(name):
    opcode = OPCODES[name]
    arity = ROWS[opcode].arity
    for side, rule in enumerate(primitive(opcode).partials):
        if not callable(rule):
            continue
        with np.errstate(all="ignore"):
            code = live(folded(listed(lambda *x, f=rule: [f(x[2], *x[:arity])], [0.75, 0.625, 0.5], name)))
        reads = {int(v) for i in range(len(code)) for v in operands(code, i)} | {*map(int, code.outputs)}
        found = {int(code.a[v]) for v in reads if code.op[v] == Op.INPUT}
        held = ROWS[Op.PARTIAL + 2 * opcode + side].columns
        assert found <= {k for k, word in enumerate(held) if word == "value"}
