"""What a backward call gives."""

from __future__ import annotations

from typing import Any, NamedTuple


class Gradients(NamedTuple):
    """Gradients by name; None: not wanted."""

    dq: Any
    dk: Any
    dv: Any
    dbias: Any = None
    dsinks: Any = None
    dalibi: Any = None
