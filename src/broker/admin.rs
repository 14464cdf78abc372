//! Answers to admins.

use serde::Serialize;
use tracing::error;
use zmtp::RoutingId;

use super::core::{Broker, Turn};
use crate::emqp::{Command, MsgId, Reply};

/// Answer to ROUTER_RETRY_DEAD.
#[derive(Debug, Serialize)]
struct Requeued {
    requeued: usize,
}

impl Broker {
    pub(super) fn on_status(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let status = self.status(turn);
        self.answer(turn, from, &status);
    }

    pub(super) fn on_show_workers(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let report = self.workers_report();
        self.answer(turn, from, &report);
    }

    pub(super) fn on_show_schedulers(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let report = self.schedulers_report();
        self.answer(turn, from, &report);
    }

    pub(super) fn on_show_dead(&mut self, turn: &mut Turn<'_>, from: &RoutingId) {
        let report = self.dead_report(turn);
        self.answer(turn, from, &report);
    }

    pub(super) fn on_retry_dead(&mut self, turn: &mut Turn<'_>, from: &RoutingId, job: Option<&MsgId>) {
        let requeued = self.revive(turn, job);
        self.answer(turn, from, &Requeued { requeued });
    }

    /// One body frame of JSON.
    fn answer(&mut self, turn: &mut Turn<'_>, to: &RoutingId, report: &impl Serialize) {
        match serde_json::to_vec(report) {
            Ok(json) => self.send(turn, self.sockets.admin, to, &Command::Reply(Reply::Single(&json))),
            Err(error) => error!(%error, "a report could not be written as JSON"),
        }
    }
}
