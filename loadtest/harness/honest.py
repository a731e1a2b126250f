"""An honest client: it reads and creates at a constant rate, each time on a new connection.

    python3 honest.py '{"to": [host, port], "from": [addresses], "path": …, "reads": a second, "creates": a second, "seconds": s}'

Without `from` it is a probe. Prints as JSON how long each request took, from the time when it was due to the last byte of its answer.
"""

import asyncio
import json
import sys

TIMEOUT = 10  # Seconds. An answer that takes longer counts as missing, and as having taken this long.


async def ask(to, source, request):
    """Sends a request. Returns the status and the bytes of its answer, read to the end."""
    reader, writer = await asyncio.open_connection(*to, local_addr=source and (source, 0))
    try:
        writer.write(request)
        answer = await reader.read(-1)
        return int(answer[9:12]), answer
    finally:
        writer.close()


class Client:
    def __init__(self, to, sources):
        self.to, self.sources, self.turn = to, sources or [None], 0
        self.host = f"Host: {to[0]}:{to[1]}\r\nConnection: close"

    def source(self):
        self.turn += 1
        return self.sources[self.turn % len(self.sources)]

    def read(self, path):
        return f"GET {path} HTTP/1.1\r\n{self.host}\r\n\r\n".encode()

    def create(self, title, content):
        body = json.dumps({"title": title, "content": content}, ensure_ascii=False).encode()
        head = f"POST /api/pages HTTP/1.1\r\n{self.host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async def timed(self, request, expected, into, due):
        loop = asyncio.get_running_loop()
        try:
            status, answer = await asyncio.wait_for(ask(self.to, self.source(), request), TIMEOUT)
            if status != expected:
                # The beginning of the error message.
                said = answer.partition(b'message":"')[2][:48].decode(errors="replace")
                status = f"{status} {said}".strip()
        except (OSError, asyncio.TimeoutError, ValueError) as error:
            status = type(error).__name__
        took = loop.time() - due
        failed = status != expected
        into["ms"].append(round(1000 * (TIMEOUT if failed else took), 2))
        if failed:
            into["failed"][str(status)] = into["failed"].get(str(status), 0) + 1

    async def at_a_rate(self, rate, seconds, request, expected):
        loop, into, tasks = asyncio.get_running_loop(), {"ms": [], "failed": {}}, []
        began = loop.time()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0, due - loop.time()))
            tasks.append(asyncio.create_task(self.timed(request(number), expected, into, due)))
        await asyncio.gather(*tasks)
        return into


async def main(asked):
    client = Client(asked["to"], asked.get("from"))
    seconds = asked["seconds"]
    content = "Honest words, *some* of them with weight.\n\n" * 20
    reads = client.at_a_rate(asked["reads"], seconds, lambda _: client.read(asked["path"]), 200)
    creates = client.at_a_rate(asked["creates"], seconds, lambda number: client.create(f"Honest {number}", content), 201)
    reads, creates = await asyncio.gather(reads, creates)
    print(json.dumps({"reads": reads, "creates": creates}))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
