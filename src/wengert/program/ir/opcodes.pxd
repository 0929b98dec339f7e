# Numbers of the instructions of a listing.
#
# Below PARTIAL stand the rows of kernels.h (WG_ADD, ...), elementwise on numbers and on arrays.
# PARTIAL + 2 * opcode + side is the first partial of the row `opcode` in operand `side`, elementwise too:
# its operands are a and b of the row and, as c, its value; -1 stands for what that partial does not read.

cpdef enum Op:
    PARTIAL = 256
    INPUT = 1024        # a: number of the input
    CONST               # a: index in constants
    ARRAY               # a: index in arrays
    LOAD                # a: array, b: offset in elements from its lowest address
    VIEW                # a: array, b: index in views: (bytes from lowest address to first element, shape, strides)
    PACK                # a: array or -1 for zeros, b: index in packs: (offsets as in LOAD, values): these replaced
    PLACE               # a: array, b: index in views, c: value: the array with that view of it overwritten
    SELECT              # a: mask, b, c: elementwise
    LESS                # comparisons of a and b: elementwise, of type bool, as are the next nine
    LESS_EQUAL
    GREATER
    GREATER_EQUAL
    EQUAL
    NOT_EQUAL
    NOT                 # a
    AND
    OR
    ISNAN               # a
    STRONG              # a * b with strong zero
    SUM                 # a: np.add.reduce of all elements
    CALL                # a: index in calls
    GUARD               # a: value, b: index in guards: (expected plain value, place)
    STOP                # a: the value itself, whose derivative is zero
    GATHER              # a: array, b: constant array of places in it, in elements from its lowest address
    PUT                 # a: array or -1 for zeros, b: places, c: array: a with these elements replaced
    SCATTER             # a: array, b: places of its elements in a new array, where those of one place are added
    OPS
