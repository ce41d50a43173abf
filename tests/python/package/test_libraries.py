"""What rapt asks of libraries that may not be here, by stand-ins for them."""

import contextlib
import sys
import types

import numpy as np
import pytest

from rapt import _libraries


class CuPy(types.ModuleType):
    """As CuPy has it: a device is current while its context lasts, each with a stream of its own."""

    def __init__(self):
        super().__init__("cupy")
        self.current = 0
        self.cuda = types.SimpleNamespace(
            get_current_stream=lambda: types.SimpleNamespace(ptr=1000 + self.current)
        )

    @contextlib.contextmanager
    def device(self, index):
        before, self.current = self.current, index
        yield
        self.current = before


def test_cupys_stream_is_that_of_the_arrays_device(monkeypatch):
    cupy = CuPy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    adapter = _libraries.CuPy(object)
    for index in range(2):
        array = types.SimpleNamespace(device=cupy.device(index))
        assert adapter.stream(array) == 1000 + index
    assert cupy.current == 0


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint32, np.int8])
def test_integers_on_a_gpu_become_the_nearest_that_int32_holds(monkeypatch, dtype):
    """Nobody waits for the GPU to look at them."""
    monkeypatch.setattr(_libraries, "_device", lambda array: "cuda:0")
    most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
    got = _libraries.integers("kv_lengths", np.array([7, most, least], dtype))
    assert got.dtype == np.int32
    assert got.tolist() == [7, min(most, 2**31 - 1), max(least, -(2**31))]
