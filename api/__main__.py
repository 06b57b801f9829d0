"""``python -I -m api``: the command line, proof against foreign folders of the same names."""

from __future__ import annotations

import sys

from api.cli import main

if __name__ == "__main__":
    sys.exit(main())
