//! Every pattern over every transport and under every mechanism.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zmtp::auth::AllowAny;
use zmtp::{
    Endpoint, KeyPair, Message, Pair, Pull, Push, Rep, Req, Security, SocketBuilder, Sub, XPub, XPubEvent, XSub,
};
use zmtp_testkit::{any_port, soon};

/// Where sockets meet, and how they trust each other.
struct Place {
    name: &'static str,
    server: Security,
    client: Security,
}

impl Place {
    fn all() -> Vec<Self> {
        let keys = KeyPair::generate().unwrap();
        let curve = Security::curve_client(keys.public(), KeyPair::generate().unwrap());
        let plain = Security::plain_client("user", "password").unwrap();
        let place = |name, server, client| Self { name, server, client };
        vec![
            place("tcp", Security::null(), Security::null()),
            place("ipc", Security::null(), Security::null()),
            place("inproc", Security::null(), Security::null()),
            place("tcp", Security::plain_server(AllowAny), plain),
            place("tcp", Security::curve_server(keys, AllowAny), curve),
        ]
    }

    fn endpoint(&self, what: &str) -> Endpoint {
        match self.name {
            "tcp" => any_port(),
            "ipc" => "ipc://*".parse().unwrap(),
            _ => format!("inproc://everywhere-{what}").parse().unwrap(),
        }
    }

    fn binds<T>(&self, builder: SocketBuilder<T>) -> SocketBuilder<T> {
        builder.security(self.server.clone())
    }

    fn connects<T>(&self, builder: SocketBuilder<T>) -> SocketBuilder<T> {
        builder.security(self.client.clone())
    }
}

fn bodies() -> impl Iterator<Item = Message> {
    let sizes = [0, 1, 255, 256, 8191, 8192, 100_000];
    sizes.into_iter().map(|size| Message::from_frames([vec![b'A'; size], vec![], vec![1], vec![b'B'; size]]))
}

#[tokio::test]
async fn pipelines() {
    for place in Place::all() {
        let mut pull = place.binds(Pull::builder()).build();
        let endpoint = pull.bind(&place.endpoint("pull")).await.unwrap();
        let push = place.connects(Push::builder()).build();
        push.connect(&endpoint).unwrap();
        for body in bodies() {
            push.send(body.clone()).await.unwrap();
            assert_eq!(soon("a message", pull.recv()).await.unwrap(), body, "{endpoint}");
        }
    }
}

#[tokio::test]
async fn requests_and_replies() {
    for place in Place::all() {
        let mut rep = place.binds(Rep::builder()).build();
        let endpoint = rep.bind(&place.endpoint("rep")).await.unwrap();
        let mut req = place.connects(Req::builder().correlate(true).relaxed(true)).build();
        req.connect(&endpoint).unwrap();
        for body in bodies() {
            req.send(body.clone()).await.unwrap();
            assert_eq!(soon("a request", rep.recv()).await.unwrap(), body, "{endpoint}");
            rep.send(body.clone()).unwrap();
            assert_eq!(soon("a reply", req.recv()).await.unwrap(), body, "{endpoint}");
        }
    }
}

#[tokio::test]
async fn pairs() {
    for place in Place::all() {
        let mut here = place.binds(Pair::builder()).build();
        let endpoint = here.bind(&place.endpoint("pair")).await.unwrap();
        let mut there = place.connects(Pair::builder()).build();
        there.connect(&endpoint).unwrap();
        for body in bodies() {
            there.send(body.clone()).await.unwrap();
            assert_eq!(soon("a message", here.recv()).await.unwrap(), body, "{endpoint}");
            here.send(body.clone()).await.unwrap();
            assert_eq!(soon("a message", there.recv()).await.unwrap(), body, "{endpoint}");
        }
    }
}

/// Pitfall 13: a subscription is a command under any mechanism, not a message, and reaches no application.
#[tokio::test]
async fn pitfall_13_publishers_and_subscribers() {
    for place in Place::all() {
        let mut xpub = place.binds(XPub::builder()).build();
        let endpoint = xpub.bind(&place.endpoint("xpub")).await.unwrap();
        let mut sub = place.connects(Sub::builder()).build();
        let mut xsub = place.connects(XSub::builder()).build();
        for topic in ["A", "", "none"] {
            sub.subscribe(topic).unwrap();
        }
        sub.connect(&endpoint).unwrap();
        for topic in ["", "A", "none"] {
            assert_eq!(soon("topics", xpub.recv()).await.unwrap(), XPubEvent::Subscribe(topic.into()), "{endpoint}");
        }
        xsub.connect(&endpoint).unwrap();
        xsub.subscribe("only").unwrap();
        assert_eq!(soon("a topic", xpub.recv()).await.unwrap(), XPubEvent::Subscribe("only".into()), "{endpoint}");
        for body in bodies() {
            xpub.send(body.clone()).await.unwrap();
            assert_eq!(soon("a message", sub.recv()).await.unwrap(), body, "{endpoint}");
            xsub.send(body.clone()).await.unwrap();
            assert_eq!(soon("a message", xpub.recv()).await.unwrap(), XPubEvent::Message(body), "{endpoint}");
        }
        xpub.send(Message::from("only")).await.unwrap();
        assert_eq!(soon("its topic", xsub.recv()).await.unwrap(), Message::from("only"), "{endpoint}");
        sub.unsubscribe("none");
        assert_eq!(soon("the end", xpub.recv()).await.unwrap(), XPubEvent::Cancel("none".into()), "{endpoint}");
        drop(xsub);
        assert_eq!(soon("the end", xpub.recv()).await.unwrap(), XPubEvent::Cancel("only".into()), "{endpoint}");
    }
}
