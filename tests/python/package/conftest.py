"""The Python package under test: CTest puts the build's into PYTHONPATH."""

import numpy as np
import pytest

pytest.importorskip("rapt", reason="the Python package is not built: run `./dev test`")


@pytest.fixture
def random():
    return np.random.default_rng(0)
