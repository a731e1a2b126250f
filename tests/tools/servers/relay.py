#!/usr/bin/env python3
"""A relay in front of one database node, which can hold back, lose or falsify what passes.

  relay.py start FOLDER NODE RELAY CQL_PORT STORAGE_PORT    relays from the address RELAY to the address NODE on both ports;
                                                            lets everything pass if it runs already
  relay.py stop FOLDER                                      kills it

FOLDER holds its process id and a socket, `control`, which takes one command a line and answers when it is in effect.

Commands:
  hold PORT DIRECTION [SENDER]   holds what goes in that direction (`to` the node or `from` it) on that port (`cql` or
                                 `storage`), as a network does that loses packets in one direction; SENDER limits it to
                                 connections of the node with this address, which is possible on the storage port alone
  lose-verdicts                  the node's answers to conditional writes are lost
  deny-verdicts                  the node's answers to conditional writes are replaced by timeouts
  pass                           ends all that; what was held is delivered now, late
  lose                           ends all that; what was held is lost, with its connections

The answer is `done` and the number of answers that were lost or replaced so far.

Data of a held connection is delivered even if its sender has closed it meanwhile. SIGSTOP holds everything.
"""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

TO, FROM = "to", "from"

# The beginning of every connection between nodes: a magic number, flags, and then the sender's own address.
MAGIC = bytes.fromhex("ca552dfa")
ADDRESS = slice(9, 13)

# CQL: a frame's header ends with the length of its body.
HEADER = 9
ERROR, RESULT = 0x00, 0x08

# Seconds after which a relay that does not answer is given up.
PATIENCE = 30


def timeout_in_place_of(frame):
    """The answer of a node on which a round of Paxos took too long, for the request that `frame` answers."""
    write_timeout, local_serial, received, required, kind = 0x1100, 0x0009, 1, 2, b"CAS"
    body = struct.pack(">IH", write_timeout, 0)
    body += struct.pack(">HII", local_serial, received, required) + struct.pack(">H", len(kind)) + kind
    # The version and the stream are those of the answer; there are no flags.
    return frame[:1] + b"\0" + frame[2:4] + struct.pack(">BI", ERROR, len(body)) + body


class Link:
    """One connection through the relay: from who made it to the node."""

    def __init__(self, relay, port):
        self.relay, self.port, self.sender = relay, port, None
        self.ends = {TO: None, FROM: None}  # the transports that data in each direction is written to
        self.waiting = {TO: bytearray(), FROM: bytearray()}
        self.unfinished = bytearray()  # the beginning of the node's next frame
        self.ended = set()  # the directions whose sender has closed

    def receive(self, direction, data):
        if self.port == "storage" and direction == TO and self.sender is None:
            self.sender = socket.inet_ntoa(data[ADDRESS]) if data[:4] == MAGIC and len(data) >= ADDRESS.stop else ""
        if self.port == "cql" and direction == FROM:
            data = self.answers(data)
        self.waiting[direction] += data
        self.deliver()

    def answers(self, data):
        """The whole frames that the node has sent, as the relay lets them through."""
        self.unfinished += data
        passed, at = bytearray(), 0
        while len(self.unfinished) - at >= HEADER:
            end = at + HEADER + int.from_bytes(self.unfinished[at + HEADER - 4 : at + HEADER], "big")
            if end > len(self.unfinished):
                break
            frame = self.unfinished[at:end]
            at = end
            if self.relay.verdicts != "pass" and frame[4] == RESULT and b"[applied]" in frame:
                self.relay.falsified += 1
                frame = b"" if self.relay.verdicts == "lose" else timeout_in_place_of(frame)
            passed += frame
        del self.unfinished[:at]
        return passed

    def deliver(self):
        """Hands on what need not wait, and closes behind it what its sender has closed."""
        for direction, end in self.ends.items():
            if end is None or self.relay.holds(self, direction):
                continue
            if self.waiting[direction]:
                end.write(bytes(self.waiting[direction]))
                self.waiting[direction].clear()
            if direction in self.ended:
                end.close()

    def lose(self):
        """Closes the connection if anything of it waits, which nobody gets then."""
        if any(self.waiting.values()):
            for end, waiting in zip(self.ends.values(), self.waiting.values()):
                waiting.clear()
                if end is not None:
                    end.abort()

    def end(self, direction):
        self.ended.add(direction)
        self.deliver()
        if len(self.ended) == 2:
            self.relay.links.discard(self)


class End(asyncio.Protocol):
    """One end of a link. Its data goes on in `direction`."""

    def __init__(self, link, direction):
        self.link, self.direction = link, direction

    def connection_made(self, transport):
        self.transport = transport
        self.link.ends[FROM if self.direction == TO else TO] = transport
        self.link.deliver()

    def data_received(self, data):
        self.link.receive(self.direction, data)

    def connection_lost(self, _):
        self.link.end(self.direction)

    # A slow reader slows its writer down.
    def pause_writing(self):
        self.of_the_other("pause_reading")

    def resume_writing(self):
        self.of_the_other("resume_reading")

    def of_the_other(self, action):
        other = self.link.ends[self.direction]
        if other is not None and not other.is_closing():
            getattr(other, action)()


class Relay:
    def __init__(self, node, address, ports):
        self.node, self.address, self.ports = node, address, ports
        self.links = set()
        self.held = set()
        self.verdicts = "pass"
        self.falsified = 0  # answers that were lost or replaced so far

    def holds(self, link, direction):
        port = (link.port, direction)
        return (*port, None) in self.held or (*port, link.sender) in self.held

    def is_cut(self, port):
        """Whether nobody can connect: that takes packets in both directions."""
        return (port, TO, None) in self.held or (port, FROM, None) in self.held

    def command(self, words):
        match words:
            case ["hold", ("cql" | "storage") as port, ("to" | "from") as direction]:
                self.held.add((port, direction, None))
            case ["hold", "storage", "to", sender]:
                self.held.add(("storage", TO, sender))
            case ["lose-verdicts"]:
                self.verdicts = "lose"
            case ["deny-verdicts"]:
                self.verdicts = "deny"
            case ["pass" | "lose" as end]:
                self.held.clear()
                self.verdicts = "pass"
                for link in list(self.links):
                    link.lose() if end == "lose" else link.deliver()
                self.changed.set()
            case _:
                return f"unknown command: {' '.join(words)}"
        return f"done {self.falsified}"

    async def reach_node(self, link):
        while self.is_cut(link.port):
            self.changed.clear()
            await self.changed.wait()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: End(link, FROM), self.node, self.ports[link.port])
        except OSError:
            link.ended.add(FROM)
            link.ends[FROM].close()

    async def accept(self, port):
        def connected():
            link = Link(self, port)
            self.links.add(link)
            task = loop.create_task(self.reach_node(link))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return End(link, TO)

        loop = asyncio.get_running_loop()
        await loop.create_server(connected, self.address, self.ports[port], backlog=512)

    async def talk(self, reader, writer):
        while line := await reader.readline():
            writer.write((self.command(line.decode().split()) + "\n").encode())
        writer.close()

    async def serve(self, folder):
        self.changed, self.tasks = asyncio.Event(), set()
        for port in self.ports:
            await self.accept(port)
        await asyncio.start_unix_server(self.talk, f"{folder}/control")
        await asyncio.Event().wait()


def tell(folder, command):
    """Gives the relay of this folder a command."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(PATIENCE)
        control.connect(f"{folder}/control")
        control.sendall(f"{command}\n".encode())
        return control.makefile().readline()


def process_of(folder):
    """The relay's process, if it runs. Its id alone is not enough, since another process may have it by now."""
    try:
        process = int(Path(folder, "pid").read_text())
        runs = folder.encode() in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return process if runs else None


def start(folder, *addresses):
    def runs():
        # The command line of a process that has just begun may be empty.
        return process_of(folder) is not None if relay is None else relay.poll() is None

    relay = None
    if process_of(folder) is None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "control").unlink(missing_ok=True)
        with open(f"{folder}/log", "wb") as log:
            command = [sys.executable, __file__, "serve", folder, *addresses]
            relay = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        Path(folder, "pid").write_text(f"{relay.pid}\n")
    # The file of the socket is there shortly before the relay listens on it.
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return tell(folder, "pass")
        except OSError as error:
            if runs() and time.monotonic() < end:
                time.sleep(0.02)
                continue
            sys.exit(f"a relay did not start: {error}: {Path(folder, 'log').read_text()}")


def stop(folder):
    process = process_of(folder)
    if process is not None:
        os.kill(process, signal.SIGKILL)


match sys.argv[1:]:
    case ["start", folder, node, address, cql, storage]:
        start(folder, node, address, cql, storage)
    case ["serve", folder, node, address, cql, storage]:
        asyncio.run(Relay(node, address, {"cql": int(cql), "storage": int(storage)}).serve(folder))
    case ["stop", folder]:
        stop(folder)
    case _:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
