"""PLAIN and CURVE between a socket of ours and one of libzmq's: keys, options of both, and libzmq's authenticator."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import zmq

SERVER, CLIENT, OTHER = zmq.curve_keypair(), zmq.curve_keypair(), zmq.curve_keypair()


class Zap:
    """Answers every request with one status and keeps what was asked."""

    def __init__(self, context: zmq.Context, stack: ExitStack, status: bytes, user: bytes = b"user") -> None:
        self.requests: list[list[bytes]] = []
        self._status = status
        self._user = user
        self._stop = threading.Event()
        self._handle = context.socket(zmq.REP)
        self._handle.bind("inproc://zeromq.zap.01")
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        stack.callback(self.close)

    def _serve(self) -> None:
        with self._handle as handle:
            while not self._stop.is_set():
                if handle.poll(20):
                    request = handle.recv_multipart()
                    self.requests.append(request)
                    handle.send_multipart([b"1.0", request[1], self._status, b"", self._user, b""])

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def curve_client(secret: tuple[bytes, bytes] = CLIENT, server: bytes = SERVER[0]) -> dict[str, str]:
    """Options of our client."""
    return {"curve_secret": secret[1].decode(), "curve_server_key": server.decode()}


def curve_server(accept: bytes = b"any") -> dict[str, str]:
    """Options of our server."""
    return {"curve_secret": SERVER[1].decode(), "curve_accept": accept.decode()}


def their_client(server: bytes = SERVER[0]) -> dict[str, object]:
    return {"curve_serverkey": server, "curve_publickey": CLIENT[0], "curve_secretkey": CLIENT[1]}


THEIR_SERVER = {"curve_server": 1, "curve_secretkey": SERVER[1]}

#: Mechanism and role of ours: options of ours, options of theirs.
SIDES = {
    "plain-client": ({"plain_user": b"admin", "plain_password": b"secret"}, {"plain_server": 1}),
    "plain-server": ({"plain_accept": "61646d696e:736563726574"}, {"plain_username": b"admin", "plain_password": b"secret"}),
    "curve-client": (curve_client(), THEIR_SERVER),
    "curve-server": (curve_server(), their_client()),
    "curve-server-known": (curve_server(CLIENT[0] + b"," + OTHER[0]), their_client()),
}
