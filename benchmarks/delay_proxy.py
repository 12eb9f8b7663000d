"""A TCP proxy in its own process that delays each request and counts the requests. All it knows of HTTP is that data sent by a client after an answer is a new
request: no request is sent while another one is active, and none is announced (Expect: 100-continue).

    python delay_proxy.py PORT SECONDS              # of the server, and to wait; prints the proxy's own port

GET /__count__ returns the number of requests since the last such call."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

BLOCK = 1 << 18
COUNT = b"GET /__count__ "


class Proxy:
    def __init__(self, port: int, delay: float) -> None:
        self.port, self.delay, self.count = port, delay, 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, with its own connection to the server."""
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.port)
        answered = asyncio.Event()
        answered.set()
        downward = asyncio.create_task(self.answers(server_reader, writer, answered))
        with suppress(OSError):
            while data := await reader.read(BLOCK):
                if data.startswith(COUNT):
                    body = str(self.count).encode()
                    self.count = 0
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                if answered.is_set():
                    answered.clear()
                    self.count += 1
                    await asyncio.sleep(self.delay)
                server_writer.write(data)
                await server_writer.drain()
        downward.cancel()
        server_writer.close()
        writer.close()

    async def answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(BLOCK):
                answered.set()
                writer.write(data)
                await writer.drain()
        writer.close()


async def main(port: int, delay: float) -> None:
    server = await asyncio.start_server(Proxy(port, delay).connected, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
