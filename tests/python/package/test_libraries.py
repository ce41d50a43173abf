"""What rapt asks of libraries that may not be here, by stand-ins for them."""

import contextlib
import sys
import types

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
