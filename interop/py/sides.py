"""The two ends of the matrix: one socket of ours and one of somebody else's, of any types, behind one face."""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq

from waits import SOON, until
from zmtp_peer import ZmtpPeer, shown

#: Ours and theirs.
LEGAL = {
    "REQ": ["REP", "ROUTER"],
    "REP": ["REQ", "DEALER"],
    "DEALER": ["REP", "DEALER", "ROUTER"],
    "ROUTER": ["REQ", "DEALER", "ROUTER"],
    "PUB": ["SUB", "XSUB"],
    "XPUB": ["SUB", "XSUB"],
    "SUB": ["PUB", "XPUB"],
    "XSUB": ["PUB", "XPUB"],
    "PUSH": ["PULL"],
    "PULL": ["PUSH"],
    "PAIR": ["PAIR"],
}
PAIRS = [(ours, theirs) for ours, all_theirs in LEGAL.items() for theirs in all_theirs]
NAMED = ("REQ", "DEALER", "ROUTER")
LOCKSTEP = ("REQ", "REP")
OUR_NAME, THEIR_NAME = b"our-peer", b"libzmq-peer"

Peer = Callable[..., ZmtpPeer]
Libzmq = Callable[..., zmq.Socket]


class Ours:
    """Our socket as the matrix drives it."""

    name = OUR_NAME

    def __init__(self, kind: str, peer: Peer, options: dict[str, str]) -> None:
        self.kind = kind
        self.socket = peer(kind.lower(), **({"id": self.name} if kind in NAMED else {}), **options)

    def send(self, frames: list[bytes]) -> None:
        self.socket.send(*frames)

    def receive(self) -> list[str] | None:
        return self.socket.receive(3 * SOON)

    def subscribe(self, topic: bytes) -> None:
        self.socket.command("subscribe", topic.hex() or "-")


class Theirs:
    """libzmq's socket as the matrix drives it."""

    name = THEIR_NAME

    def __init__(self, kind: str, libzmq: Libzmq, options: dict[str, object]) -> None:
        self.kind = kind
        self.socket = libzmq(kind, **({"routing_id": self.name} if kind in NAMED else {}), **options)
        if kind == "ROUTER":
            self.socket.router_mandatory = 1

    def send(self, frames: list[bytes]) -> None:
        def sent() -> bool:
            try:
                self.socket.send_multipart(frames)
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                return False
            return True

        until(sent, "libzmq knows whom to send to")

    def receive(self) -> list[str] | None:
        return [shown(frame) for frame in self.socket.recv_multipart()]

    def subscribe(self, topic: bytes) -> None:
        if self.kind == "SUB":
            self.socket.subscribe(topic)
        else:
            self.socket.send(b"\x01" + topic)


class Foreign(Ours):
    """A socket of another implementation, in a program that is driven like ours."""

    name = THEIR_NAME


Either = Ours | Theirs


def envelope(mine: str, other: str, name: bytes) -> list[bytes]:
    """What the application of a `mine` sees before the body, towards and from the `other` of that name."""
    frames = [name] if mine == "ROUTER" else []
    return frames + ([b""] if mine in ("ROUTER", "DEALER") and other in LOCKSTEP else [])


def passes(sender: Either, receiver: Either, body: list[bytes]) -> None:
    """Sends a body and sees it arrive whole."""
    sender.send(envelope(sender.kind, receiver.kind, receiver.name) + body)
    expected = envelope(receiver.kind, sender.kind, sender.name) + body
    assert receiver.receive() == [shown(frame) for frame in expected]


def ways(ours: Ours, theirs: Either) -> list[tuple[Either, Either]]:
    """Who sends to whom, in an order that suits both."""
    forth, back = (ours, theirs), (theirs, ours)
    if ours.kind in ("PUSH", "PUB", "XPUB"):
        return [forth]
    if ours.kind in ("PULL", "SUB", "XSUB"):
        return [back]
    return [back, forth] if ours.kind == "REP" or theirs.kind == "REQ" else [forth, back]


def subscribe_to_all(ours: Ours, theirs: Either) -> None:
    """Waits until the publisher knows that the subscriber wants everything."""
    ((publisher, subscriber),) = ways(ours, theirs)
    subscriber.subscribe(b"")
    if publisher.kind == "XPUB":
        if isinstance(subscriber, Theirs):
            # A bound SUB of libzmq looks after new connections only when its application calls.
            until(lambda: subscriber.socket.poll(1) or publisher.socket.receive(0.05) == ["01"], "the subscription")
        else:
            assert publisher.receive() == ["01"]
        return
    # A PUB cannot tell: it publishes until something arrives, and then what marks the end of that.
    done = threading.Event()
    sending = threading.Thread(target=publish_until, args=(publisher, done))
    sending.start()
    try:
        assert subscriber.receive() == [b"try".hex()]
    finally:
        done.set()
        sending.join()
    publisher.send([b"end"])
    until(lambda: subscriber.receive() == [b"end".hex()], "the end of the tries")


def publish_until(publisher: Either, done: threading.Event) -> None:
    while not done.wait(0.01):
        publisher.send([b"try"])
