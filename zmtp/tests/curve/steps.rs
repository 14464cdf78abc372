//! Our end of a connection at each step of the handshake, and the peer by hand beside it.

use std::time::Instant;

use zmtp::auth::Authenticator;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Security, SecurityFault, SocketType, Stage};
use zmtp_testkit::curve::{
    CLIENT, Client, Initiate, SERVER, Server, command, frames, greeting, metadata, pair, public,
};
use zmtp_testkit::{Hand, config};

pub fn server_config(authenticator: impl Authenticator + 'static) -> ConnectionConfig {
    ConnectionConfig { security: Security::curve_server(pair(SERVER), authenticator), ..config(SocketType::Router) }
}

pub fn client_config() -> ConnectionConfig {
    let security = Security::curve_client(public(SERVER).into(), pair(CLIENT));
    ConnectionConfig { security, ..config(SocketType::Dealer) }
}

pub fn fault(stage: Stage, fault: SecurityFault) -> ConnectionError {
    ConnectionError::Security { stage, fault }
}

/// Our server, greeted by a client by hand.
pub fn greeted(config: ConnectionConfig) -> (Hand, Client) {
    let now = Instant::now();
    let mut hand = Hand::new(config, now);
    assert_eq!(hand.feed(&greeting(), now), Ok(vec![]));
    hand.take();
    (hand, Client::new())
}

/// Our server after WELCOME.
pub fn welcomed(config: ConnectionConfig) -> (Hand, Client, Initiate) {
    let (mut hand, mut client) = greeted(config);
    assert_eq!(hand.feed(&command(&client.hello()), Instant::now()), Ok(vec![]));
    let says = client.on_welcome(&frames(&hand.take())[0].1);
    (hand, client, says)
}

/// Our server, open; the client's next counter is 3.
pub fn open(config: ConnectionConfig) -> (Hand, Client) {
    let (mut hand, client, says) = welcomed(config);
    let events = hand.feed(&command(&client.initiate(&says)), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Dealer)));
    client.on_ready(&frames(&hand.take())[0].1);
    (hand, client)
}

/// Our client and a server by hand that has its HELLO.
pub fn called(config: ConnectionConfig) -> (Hand, Server) {
    let now = Instant::now();
    let mut hand = Hand::new(config, now);
    assert_eq!(hand.feed(&greeting(), now), Ok(vec![]));
    let sent = hand.take();
    let server = Server::on_hello(&frames(&sent[64..])[0].1);
    (hand, server)
}

/// Our client, open; the server's next counter is 2.
pub fn joined(config: ConnectionConfig) -> (Hand, Server) {
    let (mut hand, server) = called(config);
    assert_eq!(hand.feed(&command(&server.welcome()), Instant::now()), Ok(vec![]));
    let (client, _) = server.on_initiate(&frames(&hand.take())[0].1);
    assert_eq!(client, public(CLIENT));
    let events = hand.feed(&command(&server.ready(1, &metadata("ROUTER"))), Instant::now()).unwrap();
    assert!(matches!(&events[..], [Event::Ready(peer)] if peer.socket_type == Some(SocketType::Router)));
    (hand, server)
}

/// What a connection says to one command, or to the bytes of several.
pub fn said(mut hand: Hand, bytes: &[u8]) -> Result<Vec<Event>, ConnectionError> {
    hand.feed(bytes, Instant::now())
}
