//! The client's side of the handshake: HELLO out, WELCOME in, INITIATE out, READY in.

use std::sync::Arc;

use bytes::BytesMut;

use super::keys::{KeyPair, PublicKey, SharedKey};
use super::sealed::{Opener, Role, Sealer};
use super::{
    COOKIE, COUNTER, ClientKeys, HELLO, HELLO_LEN, HELLO_PROOF, INITIATE, KEY_LEN, RANDOM, READY, READY_MIN, TAG,
    VOUCH, WELCOME, WELCOME_LEN, counted, open_box, put_box, random, take,
};
use crate::connection::ConnectionError;
use crate::mechanism::peer::{self, Answer};
use crate::mechanism::{Context, MAX_ERROR, MAX_PROPERTIES, Mechanism, SecurityFault, Stage, Step, Transforms};
use crate::wire::command;
use crate::wire::frame::{self, COMMAND};

const ERROR: &[u8] = b"\x05ERROR";
/// Counters of what the client sends in the handshake.
const HELLO_NUMBER: u64 = 1;
const INITIATE_NUMBER: u64 = 2;

/// A client that awaits the named command.
#[derive(Debug)]
pub(crate) enum Client {
    Welcome(Greeted),
    /// The key of everything that follows.
    Ready(SharedKey),
}

/// HELLO is out.
#[derive(Debug)]
pub(crate) struct Greeted {
    keys: Arc<ClientKeys>,
    /// C' and c'.
    transient: KeyPair,
    /// Of C' and S: for the first box each way.
    hello: SharedKey,
}

impl Client {
    pub(crate) fn start(keys: Arc<ClientKeys>, cx: &mut Context<'_>) -> Result<Self, ConnectionError> {
        let at = Stage::Hello;
        let transient = KeyPair::from_entropy(&*keys.entropy).map_err(|none| at.error(none))?;
        let hello = SharedKey::agree(transient.secret(), &keys.server).map_err(|weak| at.error(weak))?;

        frame::put_header(cx.out, COMMAND, HELLO_LEN);
        cx.out.extend_from_slice(HELLO);
        cx.out.extend_from_slice(&[1, 0]);
        cx.out.extend_from_slice(&[0; 72]);
        cx.out.extend_from_slice(transient.public().as_bytes());
        cx.out.extend_from_slice(&HELLO_NUMBER.to_be_bytes());
        put_box(cx.out, &hello, &counted(b"CurveZMQHELLO---", HELLO_NUMBER), &[0; HELLO_PROOF]);
        Ok(Self::Welcome(Greeted { keys, transient, hello }))
    }

    pub(crate) fn awaits(&self) -> Stage {
        match self {
            Self::Welcome(_) => Stage::Welcome,
            Self::Ready(_) => Stage::Ready,
        }
    }

    pub(crate) fn max_command(&self) -> u64 {
        match self {
            Self::Welcome(_) => MAX_ERROR.max(WELCOME_LEN as u64),
            Self::Ready(_) => MAX_PROPERTIES,
        }
    }

    pub(crate) fn step(self, mut body: BytesMut, cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        if let Some(data) = body.strip_prefix(ERROR) {
            return Err(ConnectionError::Refused(command::error_reason(data).into()));
        }
        let stage = self.awaits();
        match self {
            Self::Welcome(greeted) => {
                let session = greeted.on_welcome(&mut body, cx).map_err(|fault| stage.error(fault))?;
                Ok(Step::Next(Mechanism::CurveClient(Box::new(Self::Ready(session)))))
            }
            Self::Ready(session) => {
                let (counter, list) = open_ready(&session, &mut body).map_err(|fault| stage.error(fault))?;
                let peer = peer::read(list, Answer::Silence, cx)?;
                let sealer = Sealer::new(session.clone(), Role::Client, INITIATE_NUMBER);
                let opener = Opener::new(session, Role::Server, counter);
                Ok(Step::Done(Box::new(peer), Transforms::Sealed(sealer, opener)))
            }
        }
    }
}

impl Greeted {
    /// Takes the server's transient key and cookie; writes INITIATE.
    fn on_welcome(self, mut body: &mut [u8], cx: &mut Context<'_>) -> Result<SharedKey, SecurityFault> {
        if !body.starts_with(WELCOME) {
            return Err(SecurityFault::Unexpected);
        }
        if body.len() != WELCOME_LEN {
            return Err(SecurityFault::Length);
        }
        take::<{ WELCOME.len() }>(&mut body)?;
        let nonce = random(b"WELCOME-", take::<RANDOM>(&mut body)?);
        let mut welcome = open_box(&self.hello, &nonce, body)?;
        let server_transient = PublicKey::from(*take::<KEY_LEN>(&mut welcome)?);
        let cookie = take::<COOKIE>(&mut welcome)?;

        let session = SharedKey::agree(self.transient.secret(), &server_transient)?;
        let list = peer::our_properties(cx.config);
        let mut plain = Vec::with_capacity(KEY_LEN + VOUCH + list.len());
        plain.extend_from_slice(self.keys.pair.public().as_bytes());
        self.put_vouch(&mut plain, &server_transient)?;
        plain.extend_from_slice(&list);

        frame::put_header(cx.out, COMMAND, INITIATE.len() + COOKIE + COUNTER + TAG + plain.len());
        cx.out.extend_from_slice(INITIATE);
        cx.out.extend_from_slice(cookie);
        cx.out.extend_from_slice(&INITIATE_NUMBER.to_be_bytes());
        put_box(cx.out, &session, &counted(b"CurveZMQINITIATE", INITIATE_NUMBER), &plain);
        Ok(session)
    }

    /// Shows that the owner of the long-term key made the transient one, for this server.
    fn put_vouch(&self, out: &mut Vec<u8>, server_transient: &PublicKey) -> Result<(), SecurityFault> {
        let key = SharedKey::agree(self.keys.pair.secret(), server_transient)?;
        let mut nonce = [0; RANDOM];
        self.keys.entropy.fill(&mut nonce)?;
        out.extend_from_slice(&nonce);
        let both = [*self.transient.public().as_bytes(), *self.keys.server.as_bytes()];
        put_box(out, &key, &random(b"VOUCH---", &nonce), both.as_flattened());
        Ok(())
    }
}

/// The counter and the properties of a READY.
fn open_ready<'a>(session: &SharedKey, mut body: &'a mut [u8]) -> Result<(u64, &'a [u8]), SecurityFault> {
    if !body.starts_with(READY) {
        return Err(SecurityFault::Unexpected);
    }
    if body.len() < READY_MIN {
        return Err(SecurityFault::Length);
    }
    take::<{ READY.len() }>(&mut body)?;
    let counter = u64::from_be_bytes(*take::<COUNTER>(&mut body)?);
    let list = open_box(session, &counted(b"CurveZMQREADY---", counter), body)?;
    Ok((counter, list))
}
