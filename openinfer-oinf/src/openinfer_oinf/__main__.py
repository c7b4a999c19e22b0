"""`python -m openinfer_oinf` is the `oinf` command."""

import sys

from .cli import main

sys.exit(main())
