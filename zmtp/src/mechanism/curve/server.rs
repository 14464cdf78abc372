//! The server's side of the handshake: HELLO in, WELCOME out, INITIATE in, READY out.
//!
//! The cookie comes from a time when servers were to forget a client between HELLO and INITIATE. On TCP the connection
//! remembers it anyway; so the cookie has a key of its own, made for this connection and gone with it, and is compared
//! with what is remembered.

use std::sync::Arc;

use bytes::BytesMut;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::keys::{KeyPair, PublicKey, SharedKey};
use super::sealed::{Opener, Role, Sealer};
use super::{
    COUNTER, HELLO, HELLO_LEN, HELLO_PROOF, INITIATE, INITIATE_MIN, KEY_LEN, RANDOM, READY, ServerKeys, TAG, WELCOME,
    WELCOME_LEN, counted, open_box, put_box, random, take,
};
use crate::connection::ConnectionError;
use crate::mechanism::auth::{Credentials, Gate};
use crate::mechanism::peer::{self, Answer};
use crate::mechanism::{Context, MAX_PROPERTIES, Mechanism, SecurityFault, Stage, Step, Transforms};
use crate::wire::frame::{self, COMMAND};

/// Counter of what the server sends in the handshake.
const READY_NUMBER: u64 = 1;

/// A server that awaits the named command.
#[derive(Debug)]
pub(crate) enum Server {
    Hello(Arc<ServerKeys>, Gate),
    Initiate(Welcomed, Gate),
}

/// WELCOME is out.
#[derive(Debug)]
pub(crate) struct Welcomed {
    keys: Arc<ServerKeys>,
    /// C'.
    client_transient: PublicKey,
    /// S' and s'.
    transient: KeyPair,
    /// K.
    cookie_key: SharedKey,
}

/// What an INITIATE shows.
struct Initiated<'a> {
    /// C.
    client: PublicKey,
    session: SharedKey,
    counter: u64,
    list: &'a [u8],
}

impl Server {
    pub(crate) fn start(keys: Arc<ServerKeys>, gate: Gate) -> Self {
        Self::Hello(keys, gate)
    }

    pub(crate) fn awaits(&self) -> Stage {
        match self {
            Self::Hello(..) => Stage::Hello,
            Self::Initiate(..) => Stage::Initiate,
        }
    }

    pub(crate) fn max_command(&self) -> u64 {
        match self {
            Self::Hello(..) => HELLO_LEN as u64,
            Self::Initiate(..) => MAX_PROPERTIES,
        }
    }

    pub(crate) fn step(self, mut body: BytesMut, cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        let stage = self.awaits();
        match self {
            Self::Hello(keys, gate) => {
                let welcomed = Welcomed::on_hello(keys, &mut body, cx).map_err(|fault| stage.error(fault))?;
                Ok(Step::Next(Mechanism::CurveServer(Box::new(Self::Initiate(welcomed, gate)))))
            }
            Self::Initiate(welcomed, gate) => {
                let initiated = welcomed.on_initiate(&mut body).map_err(|fault| stage.error(fault))?;
                let Initiated { client, session, counter, list } = initiated;
                let peer = peer::read(list, Answer::Error, cx)?;
                let accepted = gate.ask(Credentials::Curve(client), cx.address);
                let accepted = accepted.map_err(|refusal| stage.refuse(refusal, cx))?;
                put_ready(&session, cx);
                let sealer = Sealer::new(session.clone(), Role::Server, READY_NUMBER);
                let opener = Opener::new(session, Role::Client, counter);
                Ok(Step::Done(Box::new(peer.accepted(Some(accepted))), Transforms::Sealed(sealer, opener)))
            }
        }
    }
}

impl Welcomed {
    /// Checks that the client knows our key; writes WELCOME.
    fn on_hello(keys: Arc<ServerKeys>, mut body: &mut [u8], cx: &mut Context<'_>) -> Result<Self, SecurityFault> {
        if !body.starts_with(HELLO) {
            return Err(SecurityFault::Unexpected);
        }
        if body.len() != HELLO_LEN {
            return Err(SecurityFault::Length);
        }
        take::<{ HELLO.len() }>(&mut body)?;
        if *take::<2>(&mut body)? != [1, 0] {
            return Err(SecurityFault::Version);
        }
        if *take::<72>(&mut body)? != [0; 72] {
            return Err(SecurityFault::Padding);
        }
        let client_transient = PublicKey::from(*take::<KEY_LEN>(&mut body)?);
        let counter = u64::from_be_bytes(*take::<COUNTER>(&mut body)?);
        let hello = SharedKey::agree(keys.pair.secret(), &client_transient)?;
        if *open_box(&hello, &counted(b"CurveZMQHELLO---", counter), body)? != [0; HELLO_PROOF] {
            return Err(SecurityFault::Padding);
        }

        let transient = KeyPair::from_entropy(&*keys.entropy)?;
        let cookie_key = SharedKey::generate(&*keys.entropy)?;
        let welcomed = Self { keys, client_transient, transient, cookie_key };
        welcomed.put_welcome(&hello, cx)?;
        Ok(welcomed)
    }

    fn put_welcome(&self, hello: &SharedKey, cx: &mut Context<'_>) -> Result<(), SecurityFault> {
        let mut nonces = [[0; RANDOM]; 2];
        self.keys.entropy.fill(&mut nonces[0])?;
        self.keys.entropy.fill(&mut nonces[1])?;
        let mut plain = Vec::with_capacity(WELCOME_LEN);
        plain.extend_from_slice(self.transient.public().as_bytes());
        plain.extend_from_slice(&nonces[0]);
        put_box(&mut plain, &self.cookie_key, &random(b"COOKIE--", &nonces[0]), self.remembered().as_flattened());

        frame::put_header(cx.out, COMMAND, WELCOME_LEN);
        cx.out.extend_from_slice(WELCOME);
        cx.out.extend_from_slice(&nonces[1]);
        put_box(cx.out, hello, &random(b"WELCOME-", &nonces[1]), &plain);
        Ok(())
    }

    /// What the cookie holds: C' and s'.
    fn remembered(&self) -> Zeroizing<[[u8; KEY_LEN]; 2]> {
        Zeroizing::new([*self.client_transient.as_bytes(), *self.transient.secret().as_bytes()])
    }

    /// Checks that the client has its long-term key, and means this server and this connection.
    fn on_initiate(self, mut body: &mut [u8]) -> Result<Initiated<'_>, SecurityFault> {
        if !body.starts_with(INITIATE) {
            return Err(SecurityFault::Unexpected);
        }
        if body.len() < INITIATE_MIN {
            return Err(SecurityFault::Length);
        }
        take::<{ INITIATE.len() }>(&mut body)?;
        self.check_cookie(&mut body)?;

        let counter = u64::from_be_bytes(*take::<COUNTER>(&mut body)?);
        let session = SharedKey::agree(self.transient.secret(), &self.client_transient)?;
        let mut plain = open_box(&session, &counted(b"CurveZMQINITIATE", counter), body)?;
        let client = PublicKey::from(*take::<KEY_LEN>(&mut plain)?);
        self.check_vouch(&client, &mut plain)?;
        Ok(Initiated { client, session, counter, list: plain })
    }

    fn check_cookie(&self, body: &mut &mut [u8]) -> Result<(), SecurityFault> {
        let nonce = random(b"COOKIE--", take::<RANDOM>(body)?);
        let sealed = take::<{ TAG + 2 * KEY_LEN }>(body)?;
        let cookie = open_box(&self.cookie_key, &nonce, sealed).map_err(|_| SecurityFault::Cookie)?;
        let same = bool::from(cookie.ct_eq(self.remembered().as_flattened()));
        // It holds s', and lies in a buffer that will be used again.
        zeroize::Zeroize::zeroize(cookie);
        if same { Ok(()) } else { Err(SecurityFault::Cookie) }
    }

    /// libzmq leaves the server's key in the vouch unchecked; then a server could pass a client's vouch on to another.
    fn check_vouch(&self, client: &PublicKey, plain: &mut &mut [u8]) -> Result<(), SecurityFault> {
        let nonce = random(b"VOUCH---", take::<RANDOM>(plain)?);
        let sealed = take::<{ TAG + 2 * KEY_LEN }>(plain)?;
        let key = SharedKey::agree(self.transient.secret(), client)?;
        let vouch = open_box(&key, &nonce, sealed).map_err(|_| SecurityFault::Vouch)?;
        let expected = [*self.client_transient.as_bytes(), *self.keys.pair.public().as_bytes()];
        if bool::from(vouch.ct_eq(expected.as_flattened())) { Ok(()) } else { Err(SecurityFault::Vouch) }
    }
}

fn put_ready(session: &SharedKey, cx: &mut Context<'_>) {
    let list = peer::our_properties(cx.config);
    frame::put_header(cx.out, COMMAND, READY.len() + COUNTER + TAG + list.len());
    cx.out.extend_from_slice(READY);
    cx.out.extend_from_slice(&READY_NUMBER.to_be_bytes());
    put_box(cx.out, session, &counted(b"CurveZMQREADY---", READY_NUMBER), &list);
}
