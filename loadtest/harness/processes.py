"""Processes of this run: started here, measured by what /proc says, ended by their ids whatever becomes of the run."""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 60  # Seconds after which something counts as not starting. Nothing depends on it being short.


class Processes:
    """What was started, to be ended as one. A process that outlives this one is ended by the system."""

    def __init__(self, folder):
        self.folder, self.all = folder, []

    def start(self, command, name, cpus=None, stderr=None, **more):
        """Starts `command`, on `cpus` alone if they are given; what it says goes to files of its `name`, or `stderr`."""
        command = ["setpriv", "--pdeathsig", "KILL", *map(str, command)]
        if cpus is not None:
            command = ["taskset", "-c", ",".join(map(str, cpus)), *command]
        out = self.folder / f"{name}.out"
        err = open(stderr or self.folder / f"{name}.err", "ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(out, "wb"), stderr=err, **more)
        process.name, process.out = name, out
        self.all.append(process)
        return process

    def stop(self, process, how=signal.SIGTERM):
        """Ends one, and returns how it ended."""
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
    """Waits until `condition` yields something true, and returns that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"not within {PATIENCE} s: {what}")


def said(process, pattern):
    """What `pattern` finds in the standard output of `process`, once it is there."""

    def look():
        if process.poll() is not None:
            raise SystemExit(f"{process.name} ended: see {process.out.with_suffix('.err')}")
        return re.search(pattern, process.out.read_text())

    return until(look, f"{process.name} says where it listens").group(1)


def listens(host, port):
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, **more):
    """The answer's headers and bytes."""
    with urllib.request.urlopen(urllib.request.Request(url, **more), timeout=PATIENCE) as answer:
        return answer.headers, answer.read()


def answers(url):
    try:
        return bool(get(url))
    except (urllib.error.URLError, OSError):
        return False


def cpu_seconds(process):
    """Time on a processor, user and system, of a process and of those that it started, threads that have ended included."""
    ticks = 0
    for identity in [process.pid, *children(process.pid)]:
        with open(f"/proc/{identity}/stat") as file:
            # Behind the name, which may hold anything.
            fields = file.read().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children(identity):
    with open(f"/proc/{identity}/task/{identity}/children") as file:
        return [int(child) for child in file.read().split()]
