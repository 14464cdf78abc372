//! Workers of all manners, good and bad.

use std::time::Duration;

use eventmq::mdp::{FromWorker, Part, ToWorker, Version};
use zmtp::Message;

use crate::random::Random;

/// What a worker is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Heartbeats always go on.
    Good,
    /// Says and reads nothing while it works, as the examples of the Guide do.
    Guide,
    /// Does something it should not now and then.
    Odd,
}

/// What a worker does next.
#[derive(Debug, Clone)]
pub enum Step {
    Say(Message),
    /// Work is done: the reply follows.
    Finish,
    /// Closes its connection; comes back over a new one.
    Crash,
    /// Says nothing any more, but does not close either.
    FallSilent,
    /// Says goodbye and comes back.
    Leave,
}

#[derive(Debug)]
pub struct Worker {
    pub manner: Manner,
    pub version: Version,
    pub service: &'static str,
    pub silent: bool,
    /// The request it has: client's address and body.
    pub hand: Option<(Vec<u8>, Message)>,
}

impl Worker {
    pub fn say(&self, command: &FromWorker<'_>) -> Message {
        command.to_message(self.version).unwrap()
    }

    pub fn ready(&self) -> Message {
        self.say(&FromWorker::Ready { service: self.service.as_bytes() })
    }

    pub fn reply(&self, part: Part, client: &[u8], body: &Message) -> Message {
        self.say(&FromWorker::Reply { part, client, body: body.clone() })
    }

    /// Whether it sends a heartbeat now.
    pub fn beats(&self) -> bool {
        !self.silent && (self.manner != Manner::Guide || self.hand.is_none())
    }

    /// It got a request: what it does about it, each after a pause. `healed`: no more faults.
    pub fn on_request(
        &mut self,
        random: &mut Random,
        client: &[u8],
        body: Message,
        healed: bool,
    ) -> (Vec<(Duration, Step)>, &'static str) {
        self.hand = Some((client.to_vec(), body.clone()));
        let work = random.millis(1, 400);
        let part = self.reply_part(client, &body);
        let mut plan = Vec::new();
        if let Some(part) = part.filter(|_| random.chance(40)) {
            plan.push((work / 2, Step::Say(part)));
        }
        if healed || self.manner != Manner::Odd {
            let long = self.manner == Manner::Guide && !healed && random.chance(10);
            let work = if long { random.millis(4_000, 9_000) } else { work };
            plan.push((work, Step::Finish));
            return (plan, if long { "worker: computes long without a word" } else { "worker: got a request" });
        }
        let stranger = self.reply(Part::Final, b"somebody", &body);
        let (step, what) = match random.below(12) {
            0 => (Step::Crash, "fault: worker crashes with a request"),
            1 => (Step::FallSilent, "fault: worker falls silent"),
            2 => (Step::Leave, "fault: worker leaves with a request"),
            3 => (Step::Say(self.ready()), "fault: READY twice"),
            4 => (Step::Say(stranger), "fault: reply to another client"),
            5 => {
                plan.push((work, Step::Finish));
                let again = self.reply(Part::Final, client, &body);
                plan.push((work + Duration::from_millis(1), Step::Say(again)));
                return (plan, "fault: a second reply");
            }
            6 => {
                plan.push((work, Step::Finish));
                plan.push((work + Duration::from_millis(1), Step::FallSilent));
                return (plan, "fault: worker falls silent when idle");
            }
            7 => (Step::Say(Message::from_frames(["", "MDPW01", "\x09"])), "fault: garbage"),
            _ => (Step::Finish, "worker: got a request"),
        };
        plan.push((work, step));
        (plan, what)
    }

    fn reply_part(&self, client: &[u8], body: &Message) -> Option<Message> {
        (self.version == Version::V02).then(|| self.reply(Part::Partial, client, body))
    }
}

/// A request, if that is what the broker says.
pub fn request(message: &Message) -> Option<(Vec<u8>, Message)> {
    match ToWorker::parse(message) {
        Ok((_, ToWorker::Request { client, body })) => Some((client.to_vec(), body)),
        _ => None,
    }
}
