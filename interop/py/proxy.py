"""A TCP proxy that can cut links, refuse them, or hold back what passes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading

from waits import SOON, host_port

CHUNK = 1 << 16


class Proxy:
    """Forwards `address` to `target` until told otherwise."""

    def __init__(self, target: str, address: str) -> None:
        self.address = address
        self._target = host_port(target)
        self._links: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._open: asyncio.Event
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._run(self._start())

    def cut(self) -> None:
        """Resets every link and refuses new ones."""
        self._run(self._cut())

    def mend(self) -> None:
        """Accepts links again."""
        self._run(self._listen())

    def hold(self) -> None:
        """Links stay, but nothing passes: a cable pulled, or a peer stopped."""
        self._run(self._set_open(False))

    def release(self) -> None:
        self._run(self._set_open(True))

    def close(self) -> None:
        self._run(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SOON)
        self._loop.close()

    def _run(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(SOON)

    async def _start(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, *host_port(self.address))

    async def _set_open(self, is_open: bool) -> None:
        self._open.set() if is_open else self._open.clear()

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            with contextlib.suppress(OSError):  # it may have closed by itself this moment
                link.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.transport.abort()
        self._links.clear()
        self._open.set()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._links |= {writer, onward_writer}
        await asyncio.gather(
            self._pump(reader, onward_writer), self._pump(onward_reader, writer), return_exceptions=True
        )
        self._links -= {writer, onward_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()
