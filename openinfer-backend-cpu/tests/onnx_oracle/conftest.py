"""Puts the folder of the tests on the import path, for its support modules."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
