"""The network and the memory limit of a run: the server in one namespace, its clients in another with many addresses."""

import os
import re
import subprocess
from pathlib import Path

SERVER = "10.77.0.1"
OPERATOR = "127.0.0.1"  # in the server's namespace, by default
ATTACKERS = [f"10.77.1.{host}" for host in range(1, 101)]
HONEST = [f"10.77.2.{host}" for host in range(1, 251)]

# The memory of a socket in the output of `ss -m`: bytes received, waiting to be sent, and reserved for both.
SOCKET_MEMORY = re.compile(r"skmem:\(r(\d+),.*?f(\d+),w(\d+)")


class Network:
    """Two network namespaces with a veth pair between them. Needs root."""

    def __init__(self):
        self.server, self.clients = f"hb-server-{os.getpid()}", f"hb-clients-{os.getpid()}"

    def __enter__(self):
        try:
            for name in (self.server, self.clients):
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", self.server, "link", "add", "hb0", "type", "veth", "peer", "name", "hb1", "netns", self.clients)
            addresses = [f"address add {address}/16 dev hb1" for address in [*ATTACKERS, *HONEST]]
            run("ip", "-n", self.server, "address", "add", f"{SERVER}/16", "dev", "hb0")
            run("ip", "-n", self.server, "link", "set", "hb0", "up")
            run("ip", "-n", self.clients, "-batch", "-", input="\n".join([*addresses, "link set hb1 up"]).encode())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in (self.server, self.clients):
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)

    def socket_bytes(self):
        """Kernel memory of every socket in the server's namespace, including those that the process has closed."""
        said = subprocess.run(["ip", "netns", "exec", self.server, "ss", "-tmnaH"], capture_output=True, text=True, check=False)
        return sum(sum(map(int, found)) for found in SOCKET_MEMORY.findall(said.stdout))


class Limit:
    """A control group of version 1 or 2 with a memory limit. If the machine has neither, `kind` says so, and the caller must kill
    a process that exceeds the limit."""

    def __init__(self, limit_bytes):
        self.bytes = limit_bytes
        self.folder, self.kind = None, "none: watched and killed instead"
        name = f"handbill-{os.getpid()}"
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        version_1 = [mount[1] for mount in mounts if mount[2] == "cgroup" and "memory" in mount[3].split(",")]
        version_2 = [mount[1] for mount in mounts if mount[2] == "cgroup2"]
        for folders, kind, limits in (
            (version_1, "v1", {"memory.limit_in_bytes": limit_bytes}),
            # The group is at the top, since the group of this process has processes and so cannot limit groups below it.
            (version_2, "v2", {"memory.max": limit_bytes, "memory.swap.max": 0}),
        ):
            if folders and self._made(Path(folders[0]) / self._own(kind) / name, limits):
                self.kind = f"cgroup {kind}"
                return

    def _own(self, kind):
        if kind == "v2":
            return ""
        of_memory = re.search(r"^\d+:[^:]*\bmemory\b[^:]*:/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
        return of_memory.group(1) if of_memory else ""

    def _made(self, folder, limits):
        try:
            folder.mkdir()
            self.folder = folder
            for file, value in limits.items():
                (folder / file).write_text(str(value))
        except OSError:
            self.remove()
            self.folder = None
        return self.folder is not None

    def enter(self):
        """Moves the calling process into the group."""
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used_bytes(self):
        """Memory that the kernel cannot free immediately, so without cached file pages. Version 1 does not count sockets."""
        if self.folder is None:
            return None
        stat = dict(line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        of_files = int(stat["active_file"]) + int(stat["inactive_file"])
        current = self.folder / ("memory.current" if "v2" in self.kind else "memory.usage_in_bytes")
        return int(current.read_text()) - of_files

    @property
    def counts_sockets(self):
        return "v2" in self.kind

    def remove(self):
        if self.folder and self.folder.exists():
            self.folder.rmdir()


def run(*command, **more):
    subprocess.run(command, check=True, **more)
