"""`emq pubsub` between clients of both forms and libzmq's subscribers."""

from __future__ import annotations

import json
import os

import pytest

from peers import Dealer
from programs import PyPublisher, py_publish
from waits import until

@pytest.fixture
def subscriber(libzmq):
    """Makes subscribers that are known to receive: a message of the topic `probe` has come through."""

    def make(publisher, *topics: bytes):
        socket = libzmq("SUB", rcvhwm=0)
        socket.connect(publisher.outgoing)
        for topic in (*topics, b"probe"):
            socket.subscribe(topic)

        def comes_through() -> bool:
            probe.send("PUBLISH", "probe", "")
            return bool(socket.poll(50))

        with Dealer(publisher.incoming) as probe:
            until(comes_through, "a probe")
        while socket.poll(200):
            assert socket.recv_multipart() == [b"probe", b""]
        socket.unsubscribe(b"probe")
        return socket

    return make


def test_a25_both_forms_reach_the_subscribers_of_a_topic(publisher, subscriber, stack):
    # The one that receives everything comes last: it would see the probes of the others.
    news, sports, all_topics = (subscriber(publisher, topic) for topic in (b"news", b"sports", b""))
    client = stack.enter_context(Dealer(publisher.incoming))
    client.send("PUBLISH", "news", b"\xff\x00")
    client.send("PUBLISH", "news.local", "some:header", b"second")
    client.send("PUBLISH", "sports", b"third")
    expected = [[b"news", b"\xff\x00"], [b"news.local", b"second"], [b"sports", b"third"]]
    assert [all_topics.recv_multipart() for _ in range(3)] == expected
    assert [news.recv_multipart() for _ in range(2)] == expected[:2]
    assert sports.recv_multipart() == expected[2]
    assert not news.poll(100) and not sports.poll(100)


def test_a25_malformed_messages_are_dropped_and_said_once(publisher, subscriber, stack):
    news = subscriber(publisher, b"")
    client = stack.enter_context(Dealer(publisher.incoming))
    for _ in range(3):
        client.send("PUBLISH", "topic alone")
        client.socket.send_multipart([b"", b"eMQP/1.0"])
        client.socket.send_multipart([b"x"])
        client.send("NONSENSE", "a", "b")
    client.send("PUBLISH", "news", "after all")
    assert news.recv_multipart() == [b"news", b"after all"]
    assert len(publisher.logged("message dropped")) == 1
    assert publisher.terminate() == 0


def test_a25_twenty_megabytes(publisher, subscriber, stack):
    news = subscriber(publisher, b"big")
    body = os.urandom(1 << 20) * 20
    client = stack.enter_context(Dealer(publisher.incoming))
    client.send("PUBLISH", "big", body)
    assert news.recv_multipart() == [b"big", body]


def test_the_originals_client_publishes_through_ours(publisher, subscriber):
    news = subscriber(publisher, b"news")
    py_publish(publisher.incoming, "news", *({"n": number} for number in range(100)))
    received = [news.recv_multipart() for _ in range(100)]
    assert received == [[b"news", json.dumps({"n": number}).encode()] for number in range(100)]


def test_ours_and_the_original_give_subscribers_the_same(publisher, subscriber, tmp_path, marks, ports, stack):
    original = PyPublisher(tmp_path, marks, ports)
    stack.callback(original.kill_group)
    received = []
    for device in (publisher, original):
        news = subscriber(device, b"news")
        py_publish(device.incoming, "news", *({"n": number} for number in range(5)))
        received.append([news.recv_multipart() for _ in range(5)])
    assert received[0] == received[1]


def test_a_subscriber_that_goes_and_comes(publisher, subscriber, stack):
    client = stack.enter_context(Dealer(publisher.incoming))
    for round_ in range(5):
        news = subscriber(publisher, b"news")
        client.send("PUBLISH", "news", str(round_))
        assert news.recv_multipart() == [b"news", str(round_).encode()]
        news.close()
