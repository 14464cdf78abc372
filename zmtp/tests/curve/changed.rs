//! Commands that were changed, cut or extended anywhere are refused.

use std::time::Instant;

use zmtp::auth::AllowAny;
use zmtp::connection::{ConnectionError, Event};
use zmtp::{Message, SecurityFault, Stage};
use zmtp_testkit::curve::{Client, command, metadata};
use zmtp_testkit::{Hand, frame};

use crate::steps::{called, client_config, fault, greeted, open, said, server_config, welcomed};

/// Every body that differs from `body` in one bit, or in its length, is refused.
fn refuses_all_but(body: &[u8], flags: u8, fresh: impl Fn() -> Hand) {
    assert!(said(fresh(), &frame(flags, body)).is_ok());
    for at in 0..body.len() {
        let mut changed = body.to_vec();
        // Never the highest bit: that of a key does not count in X25519. Nobody gains by it, as the vouch names the key.
        changed[at] ^= 1 << (at % 7);
        assert!(said(fresh(), &frame(flags, &changed)).is_err(), "byte {at} changed");
        assert!(said(fresh(), &frame(flags, &body[..at])).is_err(), "cut to {at} bytes");
    }
    assert!(said(fresh(), &frame(flags, &[body, b"\0"].concat())).is_err(), "one byte more");
}

#[test]
fn curve_05_b17_a_hello_that_was_changed_cut_or_extended_is_refused() {
    refuses_all_but(&Client::new().hello(), 4, || greeted(server_config(AllowAny)).0);
}

#[test]
fn curve_05_b17_an_initiate_that_was_changed_cut_or_extended_is_refused() {
    // The cookie is of one connection, so every try needs its own.
    let initiate = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, client, says) = welcomed(server_config(AllowAny));
        let mut body = client.initiate(&says);
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(initiate(&|_| {}).is_ok());
    for at in 0..292 {
        let changed = initiate(&|body| body[at] ^= 1 << (at % 8));
        let expected = match at {
            ..9 => SecurityFault::Unexpected,
            9..105 => SecurityFault::Cookie,
            _ => SecurityFault::Box,
        };
        assert_eq!(changed, Err(fault(Stage::Initiate, expected)), "byte {at} changed");
        assert!(initiate(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(initiate(&|body| body.push(0)), Err(fault(Stage::Initiate, SecurityFault::Box)));
    // An over-long one once smashed libzmq's stack (CVE-2019-13132): refused by its header.
    let long = initiate(&|body| body.resize(10_000, 0));
    assert_eq!(long, Err(ConnectionError::FrameTooLarge { size: 10_000, max: 8192 }));
}

#[test]
fn curve_05_a_welcome_that_was_changed_cut_or_extended_is_refused() {
    // The client's transient key is of one connection, so every try needs its own.
    let welcome = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, server) = called(client_config());
        let mut body = server.welcome();
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(welcome(&|_| {}).is_ok());
    for at in 0..168 {
        let expected = if at < 8 { SecurityFault::Unexpected } else { SecurityFault::Box };
        let changed = welcome(&|body| body[at] ^= 1 << (at % 8));
        assert_eq!(changed, Err(fault(Stage::Welcome, expected)), "byte {at} changed");
        assert!(welcome(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(welcome(&|body| body.push(0)), Err(fault(Stage::Welcome, SecurityFault::Length)));
}

#[test]
fn curve_05_a_ready_that_was_changed_cut_or_extended_is_refused() {
    let ready = |change: &dyn Fn(&mut Vec<u8>)| {
        let (mut hand, server) = called(client_config());
        hand.feed(&command(&server.welcome()), Instant::now()).unwrap();
        let mut body = server.ready(1, &metadata("ROUTER"));
        change(&mut body);
        said(hand, &command(&body))
    };
    assert!(ready(&|_| {}).is_ok());
    for at in 0..65 {
        let expected = if at < 6 { SecurityFault::Unexpected } else { SecurityFault::Box };
        let changed = ready(&|body| body[at] ^= 1 << (at % 8));
        assert_eq!(changed, Err(fault(Stage::Ready, expected)), "byte {at} changed");
        assert!(ready(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(ready(&|body| body.push(0)), Err(fault(Stage::Ready, SecurityFault::Box)));
}

#[test]
fn curve_05_b17_a_message_that_was_changed_cut_or_extended_is_refused() {
    let message = |change: &dyn Fn(&mut Vec<u8>)| {
        let (hand, client) = open(server_config(AllowAny));
        let mut body = client.message(3, 0, b"hello");
        change(&mut body);
        said(hand, &frame(0, &body))
    };
    assert_eq!(message(&|_| {}), Ok(vec![Event::Message(Message::from("hello"))]));
    for at in 0..38 {
        let changed = message(&|body| body[at] ^= 1 << (at % 8));
        let ok = match changed {
            Err(ConnectionError::Security { stage: Stage::Message, fault }) => match at {
                ..8 => fault == SecurityFault::Clear,
                8..16 => matches!(fault, SecurityFault::Box | SecurityFault::Counter),
                _ => fault == SecurityFault::Box,
            },
            _ => false,
        };
        assert!(ok, "byte {at} changed: {changed:?}");
        assert!(message(&|body| body.truncate(at)).is_err(), "cut to {at} bytes");
    }
    assert_eq!(message(&|body| body.push(0)), Err(fault(Stage::Message, SecurityFault::Box)));
}
