"""Makes what bench/ and weft study share findable: how things are measured, and charts. Import it
before them."""
import sys
from pathlib import Path

# At the end: a module of the same name here is the one that is meant.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "study"))
