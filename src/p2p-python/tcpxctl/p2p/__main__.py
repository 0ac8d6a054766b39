"""`python -m tcpxctl.p2p PROGRAM ARGUMENTS` runs a program that imports `uccl.p2p` unchanged."""

import runpy
import sys

from . import as_uccl

if len(sys.argv) < 2:
    sys.exit("usage: python -m tcpxctl.p2p PROGRAM [ARGUMENT...]")
as_uccl()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
