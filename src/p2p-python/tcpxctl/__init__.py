"""tcpxctl for Python: endpoints in `tcpxctl.p2p`, and the program that this package carries."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from ._native import __version__ as __version__

__all__ = ["__version__", "program"]


def program() -> Optional[Path]:
    """The program `tcpxctl` of this package; None where only the module is installed.

    pip puts it into `bin` beside the `lib` that holds the packages, or, with --target, beside them.
    """
    packages = Path(__file__).resolve().parent.parent
    for prefix in [packages, *packages.parents[:3]]:
        found = prefix / "bin" / "tcpxctl"
        if found.is_file():
            return found
    return None
