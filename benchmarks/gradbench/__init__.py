"""wengert as a tool of GradBench, https://github.com/gradbench/gradbench.

``gradbench run --eval "..." --tool "python -m benchmarks.gradbench"`` runs an eval on it, from the folder of this
project, and ``python -m benchmarks.gradbench compare PATH`` compares it with tools in a checkout of GradBench.
`models` holds the functions in plain NumPy, `evals` their arguments and derivatives, and `protocol` the messages.
"""
