"""`python -m tcpxctl ARGUMENTS` runs the program `tcpxctl`."""

import os
import sys

from . import program

found = program()
if found is None:
    sys.exit("tcpxctl: this installation has the Python module only; the wheel of scripts/wheel has the program too")
os.execv(found, ["tcpxctl", *sys.argv[1:]])
