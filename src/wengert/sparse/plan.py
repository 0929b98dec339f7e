"""The plan by which a sparse derivative is computed; results and explanations share it."""


class Plan:
    """How the nonzeros of one specialisation are computed.

    Attributes
    ----------
    mode : {"direct", "forward", "reverse", "mixed", "dense"}
        "direct": each nonzero is accumulated from partials, without seed directions.
        "forward", "reverse": products with one tangent or cotangent per colour.
        "mixed": products with both; for a Hessian, tangents of the gradient.
        "dense": extracted from an ndarray.
    pattern : scipy.sparse.csr_array of bool
    colours : Colouring or None
    reason : str
    """

    def __init__(self, mode, pattern, colours, reason):
        self.mode, self.pattern, self.colours, self.reason = mode, pattern, colours, reason

    def __repr__(self):
        m, n = self.pattern.shape
        count = "" if self.colours is None else f", {self.colours.count} colours"
        return f"<{self.mode}: {m} x {n}, {self.pattern.nnz} nonzeros{count}; {self.reason}>"
