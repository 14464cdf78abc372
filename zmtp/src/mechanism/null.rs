//! NULL (RFC 37): both sides send READY, and that is all.

use super::auth::{Accepted, Credentials, Gate};
use super::peer::{self, Answer};
use super::{Context, Stage, Step, Transforms};
use crate::connection::ConnectionError;
use crate::wire::command::{self, Command};

/// Our READY is out; the peer's is not here.
#[derive(Debug)]
pub(crate) struct Null {
    accepted: Option<Accepted>,
}

impl Null {
    pub(super) fn start(gate: Option<&Gate>, cx: &mut Context<'_>) -> Result<Self, ConnectionError> {
        let accepted = match gate.map(|gate| gate.ask(Credentials::Null, cx.address)) {
            Some(Err(refusal)) => return Err(Stage::Greeting.refuse(refusal, cx)),
            Some(Ok(accepted)) => Some(accepted),
            None => None,
        };
        command::put(cx.out, "READY", &[&peer::our_properties(cx.config)]);
        Ok(Self { accepted })
    }

    pub(super) fn step(self, body: &[u8], cx: &mut Context<'_>) -> Result<Step, ConnectionError> {
        match Command::parse(body)? {
            Command::Ready(list) => {
                let peer = peer::read(list, Answer::Error, cx)?.accepted(self.accepted);
                Ok(Step::Done(Box::new(peer), Transforms::Clear))
            }
            Command::Error(data) => Err(ConnectionError::Refused(command::error_reason(data).into())),
            _ => Err(ConnectionError::UnexpectedCommand),
        }
    }
}
