"""How a sparse derivative is computed, for results and explanations alike."""


class Plan:
    """How the nonzeros of one path are computed.

    Attributes
    ----------
    mode : {"direct", "forward", "reverse", "mixed", "dense"}
        "direct": entries are products of partials, computed as arrays, without directions.
        "forward", "reverse": by tangents or cotangents, one a colour; "mixed": by both, of a Hessian by tangents of the
        gradient.
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
