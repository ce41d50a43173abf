"""Running the rapt program as a user does."""

import os
import subprocess


class Rapt:
    """The program, with a cache folder, no tuning file and an environment of its own."""

    def __init__(self, program, cache):
        self.program = str(program)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RAPT_")
        }
        self.environment["XDG_CACHE_HOME"] = str(cache)
        self.environment["RAPT_TUNING"] = ""

    def __call__(self, *arguments, stdin=None, **environment):
        return subprocess.run(
            [self.program, *map(str, arguments)],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self.environment | environment,
            check=False,
        )

    def ok(self, *arguments, **environment):
        """What a successful command prints; it leaves stderr alone."""
        result = self(*arguments, **environment)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    def fails(self, *arguments, **environment):
        """The sentence of a command that is refused: one line on stderr, nothing on stdout."""
        result = self(*arguments, **environment)
        assert result.returncode == 2, result
        assert result.stdout == "", result
        lines = result.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("rapt: "), result
        return lines[0].removeprefix("rapt: ")
