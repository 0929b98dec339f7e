# Opcodes of the IR.
#
# Opcodes below PARTIAL are the rows of kernels.h (WG_ADD, ...), elementwise on scalars and arrays.
# PARTIAL + 2 * opcode + side is the partial of the row `opcode` with respect to operand `side`, also elementwise.
# Its operands are a and b of the row and, as c, the row's result; -1 marks an operand that the partial does not read.

cpdef enum Op:
    PARTIAL = 256
    INPUT = 1024        # a: index of the input
    CONST               # a: index in constants
    ARRAY               # a: index in arrays
    LOAD                # a: array, b: offset in elements from its lowest address: one element, as a scalar
    VIEW                # a: array, b: index in views: (bytes from lowest address to first element, shape, strides)
    PACK                # a: array or -1 for zeros, b: index in packs (offsets as in LOAD, values): stores these scalars
    PLACE               # a: array, b: index in views, c: value: the array after storing c into that view
    SELECT              # a: mask, b, c: elementwise
    LESS                # a, b: elementwise, with a bool result; so are the next nine opcodes
    LESS_EQUAL
    GREATER
    GREATER_EQUAL
    EQUAL
    NOT_EQUAL
    NOT                 # a
    AND
    OR
    ISNAN               # a
    STRONG              # a * b with strong zero: 0 if either factor is 0, even if the other is inf or NaN
    SUM                 # a: np.add.reduce of all elements
    CALL                # a: index in calls
    GUARD               # a: value, b: index in guards: (expected value, source location)
    STOP                # a: identity with zero derivative
    GATHER              # a: array, b: constant array of element offsets from its lowest address
    PUT                 # a: array or -1 for zeros, b: offsets, c: array: a with the elements of c stored at b
    SCATTER             # a: array, b: offsets: adds the elements of a at these offsets of a new array of zeros
    OPS
