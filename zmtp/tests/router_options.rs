//! Options of ROUTER and of who talks to it that name peers: CONNECT_ROUTING_ID, PROBE_ROUTER.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use zmtp::{ConnectError, Dealer, Message, MonitorEvent, Reconnect, Router};
use zmtp_testkit::{any_port, dead_port, id, soon, until};

#[tokio::test]
async fn a_name_given_to_an_endpoint_counts_from_the_start_and_over_reconnects() {
    let endpoint = dead_port();
    let quick = Reconnect { first: Duration::from_millis(10), longest: Duration::from_millis(20) };
    let mut router = Router::builder().reconnect(quick).build();
    router.connect_as(&endpoint, &id("service")).unwrap();
    let refused = router.connect_as(&dead_port(), &id("service"));
    assert!(matches!(refused, Err(ConnectError::RoutingIdInUse(of)) if of == id("service")));
    router.send(&id("service"), Message::from("early")).await.unwrap();
    for round in 0..3 {
        // Its own name is ignored.
        let mut dealer = Dealer::builder().routing_id(id("itself")).build();
        dealer.bind(&endpoint).await.unwrap();
        if round == 0 {
            assert_eq!(soon("early", dealer.recv()).await.unwrap(), Message::from("early"));
        }
        soon("room", dealer.send(Message::from("hello"))).await.unwrap();
        let (from, _) = soon("hello", router.recv()).await.unwrap();
        assert_eq!(from, id("service"));
        router.send(&from, Message::from("yes?")).await.unwrap();
        assert_eq!(soon("an answer", dealer.recv()).await.unwrap(), Message::from("yes?"));
        let mut monitor = router.monitor();
        soon("close", dealer.close()).await;
        until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Retrying { .. }).then_some(())).await;
    }
    assert!(router.disconnect(&endpoint));
    let freed = async {
        while router.connect_as(&endpoint, &id("service")).is_err() {
            tokio::task::yield_now().await
        }
    };
    soon("the name is free again", freed).await;
}

#[tokio::test]
async fn a_probe_introduces_a_peer() {
    let mut router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let dealer = Dealer::builder().routing_id(id("shy")).probe_router(true).build();
    dealer.connect(&endpoint).unwrap();
    assert_eq!(soon("the probe", router.recv()).await.unwrap(), (id("shy"), Message::from("")));
    let other = Router::builder().routing_id(id("other")).probe_router(true).build();
    other.connect(&endpoint).unwrap();
    assert_eq!(soon("the probe", router.recv()).await.unwrap(), (id("other"), Message::from("")));
}
