//! The bridge: requests for `emq.QUEUE` as jobs of an eMQP broker, their results as the replies.
//!
//! A request of one frame is a job's message; one of two frames is headers and message. What cannot become a job is
//! answered with an eMQP error result, as a broker's own refusals look.

use std::collections::VecDeque;
use std::time::Instant;

use hashbrown::HashMap;
use tracing::{debug, warn};
use zmtp::Message;

use super::requests::Sent;
use super::services::Request;
use super::{BridgeConfig, BridgeLink, Bridging, Core, Effect, Timer, Turn};
use crate::emqp::{Command, CommandName, Envelope, Headers, JobError, JobErrorKind, MsgId, MsgIds, Reply};
use crate::mdp::wire::{Part, ServiceName};

/// What the names of bridged services begin with.
const PREFIX: &[u8] = b"emq.";

/// The queue a bridged service stands for.
pub(super) fn queue_of(service: &[u8]) -> Option<&[u8]> {
    service.strip_prefix(PREFIX)
}

/// A job whose result is awaited.
#[derive(Debug)]
struct Job {
    request: Request,
    service: ServiceName,
}

/// The jobs under way.
#[derive(Debug)]
pub(super) struct Bridge {
    pub link: BridgeLink,
    ids: MsgIds,
    jobs: HashMap<MsgId, Job>,
    /// All jobs by age; those answered since are still in it.
    order: VecDeque<MsgId>,
    wake: Option<Instant>,
}

impl Bridge {
    pub fn new(seed: u64) -> Self {
        Self {
            link: BridgeLink::Down,
            ids: MsgIds::new(seed),
            jobs: HashMap::new(),
            order: VecDeque::new(),
            wake: None,
        }
    }

    pub fn is_up(&self) -> bool {
        self.link == BridgeLink::Up
    }

    /// Whether a timer is set.
    #[cfg(test)]
    pub fn is_armed(&self) -> bool {
        self.wake.is_some()
    }

    /// The oldest job that is still awaited.
    fn oldest(&mut self) -> Option<&Job> {
        while let Some(id) = self.order.front()
            && !self.jobs.contains_key(id)
        {
            self.order.pop_front();
        }
        self.jobs.get(self.order.front()?)
    }
}

impl Core {
    /// Makes a request a job.
    pub(super) fn bridge_request(
        &mut self,
        turn: &mut Turn<'_>,
        config: BridgeConfig,
        service: &[u8],
        queue: &[u8],
        mut request: Request,
    ) {
        let mut frames = request.body.frames();
        let job = match (frames.next(), frames.next(), frames.next()) {
            (Some(message), None, _) => Some((&b""[..], message)),
            (Some(headers), Some(message), None) => Some((headers, message)),
            _ => None,
        };
        let job = job.filter(|(headers, _)| !queue.is_empty() && Headers(headers).read().is_ok());
        let Some((headers, message)) = job else {
            let error = JobError::from(JobErrorKind::Malformed).to_result();
            self.reply(turn, &request, Part::Final, service, error.into());
            return;
        };
        let id = self.bridge.ids.next_id();
        let submission = submission(&id, queue, Headers(headers), message);
        let Ok(service) = ServiceName::new(service) else { return };
        // What comes back needs no more than the address.
        request.body = Message::single("");
        self.counters.jobs += 1;
        self.bridge.jobs.insert(id.clone(), Job { request, service });
        self.bridge.order.push_back(id);
        turn.out.push(Effect::Submit(submission));
        while self.bridge.jobs.len() > config.max_jobs {
            self.forget_oldest_job();
        }
        if self.bridge.wake.is_none() {
            self.arm_bridge(turn.now, config);
        }
    }

    fn forget_oldest_job(&mut self) {
        if self.bridge.oldest().is_some()
            && let Some(id) = self.bridge.order.pop_front()
        {
            self.bridge.jobs.remove(&id);
            self.counters.jobs_lost += 1;
        }
    }

    fn arm_bridge(&mut self, now: Instant, config: BridgeConfig) {
        let due = self.bridge.oldest().and_then(|job| job.request.received.checked_add(config.job_timeout));
        self.bridge.wake = due.map(|due| due.max(now));
        if let Some(due) = self.bridge.wake {
            self.timers.set(due, Timer::Bridge);
        }
    }

    /// Gives up jobs whose results do not come.
    pub(super) fn on_bridge_timer(&mut self, turn: &mut Turn<'_>) {
        self.bridge.wake = None;
        let config = match self.config.bridge {
            Bridging::On(config) => config,
            Bridging::Off => BridgeConfig::default(),
        };
        let overdue = |job: &Job| turn.now.saturating_duration_since(job.request.received) >= config.job_timeout;
        while let Some(job) = self.bridge.oldest()
            && overdue(job)
        {
            warn!(service = %job.service, client = %job.request.client, "the result of a job never came");
            self.forget_oldest_job();
        }
        self.arm_bridge(turn.now, config);
    }

    /// The eMQP broker said something: a result, or that it took a job.
    pub(super) fn on_bridge_message(&mut self, turn: &mut Turn<'_>, message: &Message) {
        let (result, id) = match Envelope::parse(message) {
            Ok(Envelope { command: Command::Reply(Reply::Result { result, request }), .. }) => (result, request),
            Ok(_) => return,
            Err(error) => return debug!(%error, "the eMQP broker sent something else than eMQP"),
        };
        let Some(Job { request, service }) = self.bridge.jobs.remove(&id) else { return };
        let body = Message::single(result);
        let sent = self.reply(turn, &request, Part::Final, service.as_bytes(), body);
        self.counters.results += u64::from(sent == Sent::Yes);
        // Ids of answered jobs go with the oldest; that must not let them pile up behind one that lasts.
        if self.bridge.order.len() > 2 * self.bridge.jobs.len() + 64 {
            let Self { bridge: super::Bridge { jobs, order, .. }, .. } = self;
            order.retain(|id| jobs.contains_key(id));
        }
    }

    /// A job could not be sent: nobody is there to take it.
    pub(super) fn on_unsubmitted(&mut self, message: &Message) {
        let Some(id) = crate::emqp::legible_msgid(message, CommandName::Request) else { return };
        if let Some(job) = self.bridge.jobs.remove(&id) {
            self.counters.jobs_lost += 1;
            debug!(service = %job.service, client = %job.request.client, "no eMQP broker to take the job");
        }
    }
}

/// A REQUEST that asks for its result.
fn submission(id: &MsgId, queue: &[u8], headers: Headers<'_>, message: &[u8]) -> Message {
    let asks = headers.read().is_ok_and(|read| read.reply_requested);
    if asks {
        return crate::emqp::Request::build(id, queue, headers.0, message);
    }
    crate::emqp::Request::build(id, queue, &headers.with_reply_requested(), message)
}
