"""Where the build under test is: CTest sets the environment, `./dev test` runs CTest."""

import os
import pathlib
import subprocess

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
def prefix(build_dir, tmp_path_factory):
    """An installed rapt."""
    installed = tmp_path_factory.mktemp("installed") / "first"
    subprocess.run(
        ["cmake", "--install", build_dir, "--prefix", installed], check=True, capture_output=True
    )
    # Nothing installed may remember where it was installed to.
    return installed.rename(installed.with_name("moved"))


@pytest.fixture(scope="session")
def program():
    return _path("RAPT_PROGRAM")


@pytest.fixture(scope="session")
def broken_program():
    return _path("RAPT_BROKEN_PROGRAM")


@pytest.fixture(scope="session")
def dump_program():
    return _path("RAPT_ORACLE_DUMP")
