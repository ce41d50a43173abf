"""The rapt program on a terminal: what it prints fits the width, and long kernels show that they
live. And when it is interrupted: what was measured is kept, and nothing else stays behind."""

import csv
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import numpy as np
import pytest
from command_line import Rapt

SMALL = "b1 h2 s33 d16 f32 causal"
MANY_WORDS = "b3 h4/2 q33 kv65 d16/24 f16 window20+3 bias:bhqk:f32 mask:bhqk alibi:b softcap30 sinks lse"
TOO_LARGE = "b1 h64 s4000000000 d64 f32"
LONG = "b1 h32 s8192 d16 f32"  # minutes of the oracle
ORACLE = ["--kernel", "cpu.oracle", "--threads", "1"]


@pytest.fixture(scope="module")
def rapt(program, tmp_path_factory):
    return Rapt(program, tmp_path_factory.mktemp("cache"))


class Terminal:
    """The program with a terminal of so many columns for what it prints."""

    def __init__(self, rapt, columns, *arguments):
        self.screen, program_end = pty.openpty()
        fcntl.ioctl(program_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [rapt.program, *arguments], stdin=subprocess.DEVNULL, stdout=program_end,
            stderr=program_end, env=rapt.environment,
        )  # fmt: skip
        os.close(program_end)
        self.shown = ""

    def read(self):
        """What came next; empty at the end."""
        try:
            return os.read(self.screen, 4096).decode(errors="replace")
        except OSError:
            return ""

    def until(self, pattern):
        while not re.search(pattern, self.shown):
            more = self.read()
            assert more, self.shown
            self.shown += more

    def end(self):
        while more := self.read():
            self.shown += more
        os.close(self.screen)
        return self.process.wait(timeout=60)

    def lines(self):
        """What ever stood in a line of the screen, without the codes that erase one."""
        return [line.replace("\x1b[K", "") for line in re.split(r"[\r\n]+", self.shown)]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", SMALL, MANY_WORDS, TOO_LARGE, "--seconds", "0"],
        ["verify", "--cases", "5", "--seed", "3"],
        ["verify", MANY_WORDS],
        ["kernels"],
        ["explain", MANY_WORDS],
        ["help", "problem"],
        ["bench", "--help"],
        ["help", "run"],
    ],
)
def test_every_line_fits_the_terminal(rapt, columns, arguments):
    terminal = Terminal(rapt, columns, *arguments)
    assert terminal.end() == 0, terminal.shown
    assert terminal.shown and not [line for line in terminal.lines() if len(line) > columns]


def test_suites_in_the_help_go_on_under_what_they_are_for(rapt):
    terminal = Terminal(rapt, 60, "bench", "--help")
    terminal.end()
    first, next_line = re.search(r"^(  features_gpu .*)\r\n(.*)\r\n", terminal.shown, re.MULTILINE).groups()
    assert re.match(r" *\S", next_line).end() == re.match(r"  features_gpu +\S", first).end()


def test_a_quiet_bench_shows_nothing(rapt):
    terminal = Terminal(rapt, 80, "bench", SMALL, "--runs", "1", "--quiet")
    assert (terminal.end(), terminal.shown) == (0, "")


def test_what_changed_since_a_baseline_fits_the_terminal(rapt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench = ["bench", SMALL, MANY_WORDS, "--runs", "1"]
    rapt.ok(*bench, "--json", "old.json")
    report = json.loads(open("old.json").read())
    report["rows"][0]["kernel"] = "cpu.gone"
    for row in report["rows"]:
        row["seconds"] = row["seconds"] and row["seconds"] / 1e6
    open("old.json", "w").write(json.dumps(report))
    terminal = Terminal(rapt, 60, *bench, "--baseline", "old.json")
    assert terminal.end() == 1, terminal.shown
    assert "beside old.json" in terminal.shown and "timed only in old.json" in terminal.shown
    assert not [line for line in terminal.lines() if len(line) > 60]


def header(rapt, columns, *arguments):
    terminal = Terminal(rapt, columns, "bench", SMALL, "--seconds", "0", *arguments)
    terminal.end()
    (line,) = [line for line in terminal.lines() if re.match("  kernel .*time", line)]
    return re.split(r"  +", line.strip())


def test_a_narrow_terminal_drops_columns_in_the_order_that_help_tells(rapt):
    (order,) = re.findall(r"goes without columns, in this order: (.*)\.", rapt.ok("bench", "--help"))
    order = [column for column in order.split(", ") if column not in ("replayed", "launched")]
    everything = header(rapt, 300)
    assert set(order) < set(everything)
    seen = {len(everything)}
    for columns in range(110, 20, -6):
        shown = header(rapt, columns)
        dropped = len(everything) - len(shown)
        assert shown == [column for column in everything if column not in order[:dropped]]
        seen.add(len(shown))
    assert header(rapt, 80) == [name for name in everything if name not in ("config", "workspace")]
    assert min(seen) == len(everything) - len(order)
    assert everything == re.split(
        r"  +", rapt.ok("bench", SMALL, "--seconds", "0").splitlines()[1].strip()
    )


@pytest.mark.parametrize("command", ["bench", "tune", "verify"])
def test_a_long_kernel_shows_that_it_lives(rapt, tmp_path, command):
    kernel = "cpu.flash" if command == "tune" else "cpu.oracle"  # the oracle cannot win
    problem = "b1 h4 s65536 d64 f32" if command == "tune" else LONG
    output = ["--output", str(tmp_path / "tuning.txt")] if command == "tune" else []
    terminal = Terminal(
        rapt, 80, command, problem, "--kernel", kernel, "--threads", "1", *output
    )
    who = "the oracle" if command == "verify" else kernel
    estimate = " " if command == "verify" else ", estimate "
    terminal.until(f"{who}: [3-9] s{estimate}")  # a busy machine may miss a second
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == -signal.SIGINT
    last_words = "rapt: stopped before the first problem was done\r\n" if command == "bench" else ""
    assert terminal.shown.endswith(f"\r\x1b[K{last_words}"), "the line is wiped"


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(rapt, *arguments, **options):
    return subprocess.Popen(
        [rapt.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=rapt.environment, **options,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_bench_that_is_interrupted_keeps_the_rows_it_has(rapt, tmp_path, number):
    rows, lines = tmp_path / "rows.json", tmp_path / "rows.csv"
    process = started(
        rapt, "bench", SMALL, LONG, *ORACLE, "--seconds", "0", "--json", rows, "--csv", lines
    )
    wait_for(lines.exists)
    process.send_signal(number)
    table, complaint = process.communicate(timeout=60)
    assert process.returncode == -number
    assert complaint == f"rapt: stopped; the rows of 1 problem are in {rows} and {lines}\n"
    assert sorted(tmp_path.iterdir()) == [lines, rows]
    assert [row["problem"] for row in json.loads(rows.read_text())["rows"]] == [SMALL]
    assert [row["problem"] for row in csv.DictReader(lines.open(newline=""))] == [SMALL]
    assert LONG not in table


def test_a_bench_that_is_interrupted_before_its_first_row_leaves_files_as_they_were(rapt, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text("what was there")
    process = started(rapt, "bench", LONG, *ORACLE, "--json", rows)
    while not process.stdout.readline().startswith("  kernel"):
        pass
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert complaint == "rapt: stopped before the first problem was done\n"
    assert list(tmp_path.iterdir()) == [rows] and rows.read_text() == "what was there"


def test_json_on_standard_output_is_whole_when_interrupted(rapt):
    process = started(rapt, "bench", SMALL, LONG, *ORACLE, "--seconds", "0", "--json", "-")
    while "cpu.oracle" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    report, _ = process.communicate(timeout=60)
    assert [row["problem"] for row in json.loads(report)["rows"]] == [SMALL]


def test_signals_that_are_to_be_ignored_stay_ignored(rapt, tmp_path):
    rows = tmp_path / "rows.json"
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    process = started(
        rapt, "bench", SMALL, LONG, *ORACLE, "--seconds", "0", "--json", rows, preexec_fn=ignore
    )
    wait_for(rows.exists)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_a_run_that_is_interrupted_leaves_nothing(rapt, tmp_path):
    np.save(tmp_path / "q.npy", np.ones((1, 8192, 32, 16), np.float32))
    array = tmp_path / "q.npy"
    process = started(rapt, "run", array, array, array, "-o", tmp_path / "out.npy", *ORACLE)
    wait_for(lambda: len(list(tmp_path.iterdir())) > 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert list(tmp_path.iterdir()) == [array]
