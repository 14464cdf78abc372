//! PLAIN (RFC 24): user name and password in clear.
//!
//! `client HELLO -> server WELCOME -> client INITIATE -> server READY`, or ERROR from the server at any time.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::auth::{Accepted, Credentials, Gate};
use super::peer::{self, Answer};
use super::{Context, Mechanism, SecurityFault, Stage, Step, Transforms};
use crate::connection::ConnectionError;
use crate::wire::command;

const HELLO: &[u8] = b"\x05HELLO";
/// What libzmq 4.3.0 and 4.3.1 send where HELLO belongs.
const HELLO_OF_4_3_0: &[u8] = b"\x05WELCOME";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
const ERROR: &[u8] = b"\x05ERROR";
/// What libzmq since 4.3.0 sends where ERROR belongs: "\x5ERROR" in C is the byte 5E and then RROR.
const ERROR_OF_LIBZMQ: &[u8] = b"\x5eRROR";
/// Longest user name and password, in bytes.
pub(super) const MAX_FIELD: usize = 255;

/// User name or password does not fit the one byte that tells its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a user name or password of {0} bytes, more than 255")]
pub struct CredentialsError(pub usize);

/// What a client proves itself by.
pub(crate) struct UserPassword {
    user: Box<[u8]>,
    password: Zeroizing<Box<[u8]>>,
}

impl UserPassword {
    pub(super) fn new(user: &[u8], password: &[u8]) -> Result<Self, CredentialsError> {
        match user.len().max(password.len()) {
            0..=MAX_FIELD => Ok(Self { user: user.into(), password: Zeroizing::new(password.into()) }),
            too_long => Err(CredentialsError(too_long)),
        }
    }
}

impl fmt::Debug for UserPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserPassword(\"{}\", ..)", self.user.escape_ascii())
    }
}

/// A client that awaits the named command.
#[derive(Debug)]
pub(crate) enum Client {
    Welcome,
    Ready,
}

impl Client {
    pub(super) fn start(pair: &Arc<UserPassword>, cx: &mut Context<'_>) -> Self {
        let lengths = [[pair.user.len() as u8], [pair.password.len() as u8]];
        command::put(cx.out, "HELLO", &[&lengths[0], &pair.user, &lengths[1], &pair.password]);
        Self::Welcome
    }

    pub(super) fn awaits(&self) -> Stage {
        match self {
            Self::Welcome => Stage::Welcome,
            Self::Ready => Stage::Ready,
        }
    }

    pub(super) fn step(self, body: &[u8], cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        if let Some(data) = body.strip_prefix(ERROR).or_else(|| body.strip_prefix(ERROR_OF_LIBZMQ)) {
            return Err(ConnectionError::Refused(command::error_reason(data).into()));
        }
        match self {
            Self::Welcome if body == WELCOME => {
                command::put(cx.out, "INITIATE", &[&peer::our_properties(cx.config)]);
                Ok(Step::Next(Mechanism::PlainClient(Self::Ready)))
            }
            Self::Welcome if body.starts_with(WELCOME) => Err(Stage::Welcome.error(SecurityFault::Length)),
            Self::Welcome => Err(Stage::Welcome.error(SecurityFault::Unexpected)),
            Self::Ready => {
                let list = body.strip_prefix(READY).ok_or_else(|| Stage::Ready.error(SecurityFault::Unexpected))?;
                let peer = peer::read(list, Answer::Silence, cx)?;
                Ok(Step::Done(Box::new(peer), Transforms::Clear))
            }
        }
    }
}

/// A server that awaits the named command.
#[derive(Debug)]
pub(crate) enum Server {
    Hello(Gate),
    Initiate(Accepted),
}

impl Server {
    pub(super) fn start(gate: Gate) -> Self {
        Self::Hello(gate)
    }

    pub(super) fn awaits(&self) -> Stage {
        match self {
            Self::Hello(_) => Stage::Hello,
            Self::Initiate(_) => Stage::Initiate,
        }
    }

    pub(super) fn step(self, mut body: BytesMut, cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        match self {
            Self::Hello(gate) => {
                let credentials = parse_hello(&body).map_err(|fault| Stage::Hello.error(fault))?;
                let asked = gate.ask(credentials, cx.address);
                // The buffer goes back to a pool.
                body.zeroize();
                let accepted = asked.map_err(|refusal| Stage::Hello.refuse(refusal, cx))?;
                command::put(cx.out, "WELCOME", &[]);
                Ok(Step::Next(Mechanism::PlainServer(Self::Initiate(accepted))))
            }
            Self::Initiate(accepted) => {
                let list =
                    body.strip_prefix(INITIATE).ok_or_else(|| Stage::Initiate.error(SecurityFault::Unexpected))?;
                let peer = peer::read(list, Answer::Error, cx)?.accepted(Some(accepted));
                command::put(cx.out, "READY", &[&peer::our_properties(cx.config)]);
                Ok(Step::Done(Box::new(peer), Transforms::Clear))
            }
        }
    }
}

fn parse_hello(body: &[u8]) -> Result<Credentials<'_>, SecurityFault> {
    let data = body.strip_prefix(HELLO).or_else(|| body.strip_prefix(HELLO_OF_4_3_0));
    let (user, rest) = take_field(data.ok_or(SecurityFault::Unexpected)?)?;
    match take_field(rest)? {
        (password, []) => Ok(Credentials::Plain { user, password }),
        _ => Err(SecurityFault::Length),
    }
}

fn take_field(data: &[u8]) -> Result<(&[u8], &[u8]), SecurityFault> {
    let (&len, rest) = data.split_first().ok_or(SecurityFault::Length)?;
    rest.split_at_checked(len.into()).ok_or(SecurityFault::Length)
}
