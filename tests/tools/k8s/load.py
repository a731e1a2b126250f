"""Sends requests, whether or not they succeed: mostly reads, and some creates and updates. For tests/tools/k8s/run.

    load.py http://address RATE FOLDER HOST

HOST is the host that requests name. The script makes FOLDER/begun once the load is steady, ends when
FOLDER/end appears, and prints one line of JSON: the number of requests with the expected answer, the first failures, and the
slowest answer in seconds. It exits with 1 if any request failed.

RATE is the most requests a second. A slow machine gets fewer: no more than AT_ONCE wait for an answer at the same time.

Every second read uses a connection that is kept open, as load balancers and libraries do. If that connection was closed
before any part of an answer arrived, the read is sent again over a new one, as they do too. All other requests are sent once,
each over its own connection, so that a listener that closes too early shows up.

A kept connection is closed soon after the server has closed it, as they do too. Much later the pod would be gone and would not
answer the end of the connection. The node would then keep the connection in its table for a minute and more, and send a new one
from the same port to the address of that pod.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

# Enough that two changes of one page are a second apart. This tests upgrades, not races between writers.
PAGES = 67

AT_ONCE = 16


class Client:
    def __init__(self, address, host):
        self.address = address
        self.host = host
        self.kept = []
        self.sent_again = 0

    async def call(self, method, path, body=None, key=None, *, keep=False):
        """Sends a request and returns the status and body of the answer."""
        for connection in [kept for kept in self.kept if kept[0].at_eof()]:
            self.kept.remove(connection)
            connection[1].close()
        if keep and self.kept:
            connection = self.kept.pop()
            try:
                return await self.ask(connection, method, path, body, key, keep)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if getattr(error, "partial", b""):
                    raise
                self.sent_again += 1
        return await self.ask(await asyncio.open_connection(*self.address), method, path, body, key, keep)

    async def ask(self, connection, method, path, body, key, keep):
        reader, writer = connection
        keeps = False
        try:
            payload = json.dumps(body).encode() if body is not None else b""
            # Without the last field a proxy may ask for a compressed answer, decompress it, and pass it on without a length.
            head = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(payload)}", "Accept-Encoding: identity"]
            head += [] if keep else ["Connection: close"]
            head += ["Content-Type: application/json"] if payload else []
            head += [f"Authorization: Bearer {key}"] if key else []
            writer.write("\r\n".join([*head, "", ""]).encode() + payload)
            await writer.drain()
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            answer = await reader.readexactly(int(headers["content-length"]))
            keeps = keep and headers.get("connection", "") != "close"
            return int(first.split(" ", 2)[1]), answer
        finally:
            if keeps:
                self.kept.append(connection)
            else:
                writer.close()


async def main():
    address, rate, folder = urlsplit(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    client = Client((address.hostname, address.port or 80), sys.argv[4])
    pages, answered, failures, slowest, running = [], 0, [], 0.0, set()
    slots = asyncio.Semaphore(AT_ONCE)
    create = "POST", "/api/pages", {"title": "Load", "content": "*Before*."}

    async def answer_of(expected, *details, **options):
        status, body = await asyncio.wait_for(client.call(*details, **options), 30)
        assert status == expected, f"answered {status}: {body[:200]!r}"
        return body

    for _ in range(PAGES):
        pages.append(json.loads(await answer_of(201, *create)))

    def request(number):
        """Of twenty requests one creates a page, two update one, three read one as HTML, and the others read one as JSON."""
        page, kind = pages[number % PAGES], number % 20
        path = f"/api/pages/{page['slug']}"
        if kind == 0:
            return 201, *create
        if kind < 3:
            return 200, "PATCH", path, {"content": f"*Changed* {number}."}, page["edit_key"]
        return 200, "GET", f"/{page['slug']}" if kind < 6 else path

    async def one(number):
        nonlocal answered, slowest
        started = time.monotonic()
        expected, *details = request(number)
        try:
            await answer_of(expected, *details, keep=details[0] == "GET" and number % 2 == 0)
            answered += 1
        except Exception as error:  # A client would have seen any of them.
            failures.append(f"{time.strftime('%X')} {details[0]}: {type(error).__name__} {error}")
        slowest = max(slowest, time.monotonic() - started)

    begun, number = time.monotonic(), 0
    (folder / "begun").touch()
    while not (folder / "end").exists():
        number += 1
        await slots.acquire()
        task = asyncio.create_task(one(number))
        running.add(task)
        task.add_done_callback(lambda done: (running.discard(done), slots.release()))
        await asyncio.sleep(1 / rate)
    await asyncio.gather(*running)
    took = time.monotonic() - begun
    result = {"answered": answered, "failed": len(failures), "rate": round(number / took), "slowest": round(slowest, 3)}
    print(json.dumps({**result, "sent again": client.sent_again, "failures": failures[:10]}))
    sys.exit(bool(failures))


asyncio.run(main())
