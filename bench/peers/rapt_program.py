"""The rapt program as one side of a race: its choice of a kernel, and its benchmark of that."""

from __future__ import annotations

import json
import pathlib
import subprocess
import tempfile

from problem import Refusal

FAILED_CHECK = 1  # exit code of a bench whose result was wrong; its report is written all the same


class RaptProgram:
    """`options` go to every command: --threads, --device."""

    def __init__(self, path: pathlib.Path, *options):
        self.path = path
        self.options = options

    def chosen_kernel(self, problem: str) -> str:
        return json.loads(self._run("explain", problem, "--json"))["kernel"]

    def bench(self, problem: str, kernel: str, seconds: float) -> dict:
        """The report of one kernel on one problem: a single row."""
        return self._bench(problem, "--kernel", kernel, "--seconds", f"{seconds:g}")

    def bench_chosen(self, problem: str, seconds: float) -> dict:
        """The same for the kernel it chooses."""
        return self._bench(problem, "--chosen", "--seconds", f"{seconds:g}")

    def _bench(self, *arguments) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            self._run("bench", *arguments, "--json", report)
            return json.loads(report.read_text())

    def _run(self, *arguments) -> str:
        command = [str(word) for word in (self.path, *arguments, *self.options)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Refusal(
                f"cannot run rapt at '{self.path}' ({error.strerror}); build it with ./dev build, "
                "or name it with --rapt"
            ) from error
        if result.returncode not in (0, FAILED_CHECK):
            lines = result.stderr.splitlines() or [f"it ended with code {result.returncode}"]
            raise Refusal(f"rapt: {lines[-1].removeprefix('rapt: ')}")  # warnings come before
        return result.stdout
