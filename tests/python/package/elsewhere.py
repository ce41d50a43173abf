"""Arrays that lie on another device, as far as DLPack tells: for what is refused before anything is
read."""

import ctypes

CUDA = 2  # DLPack's type of device


class Elsewhere:
    """The memory of a NumPy array, said to be on the second CUDA device."""

    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return CUDA, 1

    def __dlpack__(self, **options):
        capsule = self._array.__dlpack__(max_version=(1, 0))
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # version, context, deleter and flags are before the tensor, whose device follows its data
        device = pointer(capsule, b"dltensor_versioned") + 5 * 8
        ctypes.c_int32.from_address(device).value = CUDA
        ctypes.c_int32.from_address(device + 4).value = 1
        return capsule
