"""rapt's declarations of XLA's foreign-function interface are those of the header that JAX brings."""

import subprocess

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed; rapt does not need it")

# Structs of python/module/xla.hpp and fields of theirs, as JAX's header calls them.
ABI = {
    "Extension Extension_Base": "type next",
    "Version Api_Version": "extension:extension_start major:major_version minor:minor_version",
    "ErrorCreate Error_Create_Args": "message code:errc",
    "StreamGet Stream_Get_Args": "context:ctx stream",
    "DeviceOrdinalGet DeviceOrdinal_Get_Args": "context:ctx ordinal:device_ordinal",
    "Api Api": """version:api_version error_create:XLA_FFI_Error_Create
        stream_get:XLA_FFI_Stream_Get device_ordinal_get:XLA_FFI_DeviceOrdinal_Get""",
    "Buffer Buffer": "dtype data rank dims",
    "Buffers Args": "size types buffers:args",
    "Buffers Rets": "size types buffers:rets",
    "Text ByteSpan": "data:ptr size:len",
    "Attributes Attrs": "size types names values:attrs",
    "CallFrame CallFrame": """extension:extension_start api context:ctx stage arguments:args
        results:rets attributes:attrs""",
    "Metadata Metadata": "version:api_version traits",
    "MetadataExtension Metadata_Extension": "base:extension_base metadata",
}
ENUMS = {
    "DataType": "PRED S32 F16 F32 BF16",
    "Error_Code": "INVALID_ARGUMENT NOT_FOUND RESOURCE_EXHAUSTED UNIMPLEMENTED INTERNAL",
    "AttrType": "STRING",
    "Extension": "Metadata",
}


def test_the_interface_is_that_of_jaxs_header(source_dir, tmp_path):
    """Where every field lies, by a compiler that sees both."""
    lines = ['#include "xla/ffi/api/c_api.h"', '#include "python/module/xla.hpp"']
    lines += ["namespace ours = rapt_python::xla;"]
    for structs, fields in ABI.items():
        our, their = structs.split()
        for field in fields.split():
            one, _, other = field.partition(":")
            place = f"offsetof(XLA_FFI_{their}, {other or one})"
            lines.append(f"static_assert(offsetof(ours::{our}, {one}) == {place});")
    for enum, values in ENUMS.items():
        for value in values.split():
            theirs = f"XLA_FFI_{enum}_{value}"
            lines.append(f"static_assert(int(ours::{value.lower()}) == int({theirs}));")
    (tmp_path / "both.cpp").write_text("\n".join(lines))
    folders = [f"-I{folder}" for folder in (jax.ffi.include_dir(), source_dir)]
    command = ["c++", "-std=c++20", "-fsyntax-only", *folders, str(tmp_path / "both.cpp")]
    subprocess.run(command, check=True)
