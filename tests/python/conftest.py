"""Where the build under test is: CTest sets the environment, `./dev test` runs CTest."""

import os
import pathlib

import pytest

os.environ["RAPT_TUNING"] = ""  # whatever the user tuned, tests choose by estimate


def _path(variable):
    value = os.environ.get(variable)
    if not value:
        pytest.fail(f"{variable} is not set: run `./dev test`, or ctest in a build folder")
    return pathlib.Path(value)


@pytest.fixture(scope="session")
def source_dir():
    return pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build_dir():
    return _path("RAPT_BUILD_DIR")


@pytest.fixture(scope="session")
def program():
    return _path("RAPT_PROGRAM")


@pytest.fixture(scope="session")
def broken_program():
    return _path("RAPT_BROKEN_PROGRAM")


@pytest.fixture(scope="session")
def dump_program():
    return _path("RAPT_ORACLE_DUMP")
