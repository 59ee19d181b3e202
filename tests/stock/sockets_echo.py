"""An echo server and 200 clients of it at once, in plain asyncio: knows of no RDMA.

usage: sockets_echo.py server|client PORT
"""
import asyncio
import sys

CLIENTS, ROUNDS = 200, 10


async def answer(reader, writer):
    while octets := await reader.read(65536):
        writer.write(octets)
        await writer.drain()
    writer.close()


async def ask(port, number):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for turn in range(ROUNDS):
        message = f"{number}-{turn} ".encode() * (1 + number * turn % 3000)
        writer.write(message)
        await writer.drain()
        if await reader.readexactly(len(message)) != message:
            sys.exit(f"client {number}: the echo is not what was sent")
    writer.close()
    await writer.wait_closed()


async def serve(port):
    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=CLIENTS)
    await server.serve_forever()


async def ask_all(port):
    await asyncio.gather(*(ask(port, number) for number in range(CLIENTS)))
    print(CLIENTS, "clients, each answered", ROUNDS, "times")


if __name__ == "__main__":
    role = serve if sys.argv[1] == "server" else ask_all
    asyncio.run(role(int(sys.argv[2])))
