"""Speak GradBench's protocol, or compare tools: see the package's docstring."""

import sys

if sys.argv[1:2] == ["compare"]:
    from benchmarks.gradbench.compare import main

    main(sys.argv[2:])
else:
    from benchmarks.gradbench.protocol import serve

    serve()
