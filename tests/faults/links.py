# SPDX-License-Identifier: Apache-2.0
"""The chaos proxy between roles: one process that listens for every node and hands on what it gets, late, slowly, damaged, or not at all.

Orders come as lines of JSON, {"listen": {NODE: [address, port]}, "to": {NODE: [address, port]}, "trouble": {NODE: {...}}, "replay": [NODE, OTHER]}, and are answered with
one. `replay`: what the last connections to the node sent is sent to the other one, on new connections. Troubles of a node:

    delay    seconds that each piece waits        rate     bytes in a second
    corrupt  part of the pieces with a wrong byte cut      part of the pieces after which the connection ends
    deaf     nothing goes to the node             mute     nothing comes back from it
"""
import asyncio
import collections
import contextlib
import json
import random
import sys

PIECE = 16384
KEPT_CONNECTIONS, KEPT_BYTES = 16, 1 << 20  # of a node, to be sent again


class Links:
    def __init__(self, seed):
        self.dice, self.servers, self.to, self.trouble = random.Random(seed), {}, {}, {}
        self.done = {"corrupt": 0, "cut": 0, "replayed": 0}
        self.said = collections.defaultdict(lambda: collections.deque(maxlen=KEPT_CONNECTIONS))
        self.replays = set()

    async def pump(self, node, way, source, sink, kept=None):
        """One direction of a connection until it ends; `kept` gets what was read."""
        try:
            while piece := await source.read(PIECE):
                if kept is not None and len(kept) < KEPT_BYTES:
                    kept += piece
                while self.trouble.get(node, {}).get(way):
                    await asyncio.sleep(0.1)
                trouble = self.trouble.get(node, {})
                await asyncio.sleep(trouble.get("delay", 0) + (len(piece) / trouble["rate"] if "rate" in trouble else 0))
                if self.dice.random() < trouble.get("corrupt", 0):
                    at = self.dice.randrange(len(piece))
                    piece = piece[:at] + bytes([piece[at] ^ 1 << self.dice.randrange(8)]) + piece[at + 1:]
                    self.done["corrupt"] += 1
                if self.dice.random() < trouble.get("cut", 0):
                    self.done["cut"] += 1
                    sink.write(piece[:len(piece) // 2])
                    break
                sink.write(piece)
                await sink.drain()
        except OSError:
            pass

    async def serve(self, node, reader, writer):
        try:
            there, back = await asyncio.wait_for(asyncio.open_connection(*self.to[node]), 5)
        except (OSError, asyncio.TimeoutError):
            writer.transport.abort()
            return
        kept = bytearray()
        self.said[node].append(kept)
        pumps = [asyncio.create_task(self.pump(node, "deaf", reader, back, kept)), asyncio.create_task(self.pump(node, "mute", there, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for end in (writer, back):
            end.close()

    async def say_again(self, node, said):
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            reader, writer = await asyncio.wait_for(asyncio.open_connection(*self.to[node]), 5)
            writer.write(said)
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(), 10)
            writer.close()

    def replay(self, heard, node):
        for said in [bytes(kept) for kept in self.said[heard]]:
            task = asyncio.create_task(self.say_again(node, said))
            self.replays.add(task)
            task.add_done_callback(self.replays.discard)
            self.done["replayed"] += 1

    async def order(self, order):
        self.to.update(order.get("to", {}))
        self.trouble = order.get("trouble", self.trouble)
        if "replay" in order:
            self.replay(*order["replay"])
        for node, (address, port) in order.get("listen", {}).items():
            self.servers[node] = await asyncio.start_server(lambda r, w, node=node: self.serve(node, r, w), address, port)

    async def run(self):
        loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            await self.order(json.loads(line))
            print(json.dumps(self.done), flush=True)


asyncio.run(Links(int(sys.argv[1])).run())
