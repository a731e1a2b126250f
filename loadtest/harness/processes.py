"""Processes of this run: started here, measured through /proc, and ended by their ids even if the run fails."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 60  # Seconds after which a start counts as failed. Nothing depends on it being short.


class Processes:
    """The started processes, which can be ended together. If this process ends first, the kernel ends them."""

    def __init__(self, folder):
        self.folder, self.all = folder, []

    def start(self, command, name, cpus=None, **more):
        """Starts `command`, only on `cpus` if they are given. Its output goes to files named after `name`."""
        command = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
        if cpus is not None:
            command = ["taskset", "-c", ",".join(map(str, cpus)), *command]
        out = self.folder / f"{name}.out"
        files = {"stdout": open(out, "wb"), "stderr": open(out.with_suffix(".err"), "ab")}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **files, **more)
        process.name, process.out = name, out
        self.all.append(process)
        return process

    def stop(self, process, how=signal.SIGTERM):
        """Ends a process and returns its exit code."""
        if process.poll() is None:
            process.send_signal(how)
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def stop_all(self):
        for process in reversed(self.all):
            self.stop(process)


def until(condition, what):
    """Waits until `condition` returns a true value, and returns it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"not within {PATIENCE} s: {what}")


def said(process, pattern, stream="out"):
    """Waits until `pattern` matches the standard output of `process`, or its standard error. Returns the first group."""

    def look():
        if process.poll() is not None:
            raise SystemExit(f"{process.name} ended: see {process.out.with_suffix('.err')}")
        return re.search(pattern, process.out.with_suffix(f".{stream}").read_text())

    return until(look, f"{process.name} says where it listens").group(1)


def listens(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, **more):
    """Sends a request. Returns the headers and bytes of the answer."""
    with urllib.request.urlopen(urllib.request.Request(url, **more), timeout=PATIENCE) as answer:
        return answer.headers, answer.read()


def answers(url):
    try:
        return bool(get(url))
    except (urllib.error.URLError, OSError):
        return False


def cpu_seconds(process):
    """User and system CPU time of a process and of its children, including threads that have ended."""
    ticks = 0
    for identity in [process.pid, *children(process.pid)]:
        with open(f"/proc/{identity}/stat") as file:
            # The fields after the name, since the name can contain any character.
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children(identity):
    with open(f"/proc/{identity}/task/{identity}/children") as file:
        return [int(child) for child in file.read().split()]
