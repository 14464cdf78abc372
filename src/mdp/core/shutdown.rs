//! Ending: requests in hand get their time, workers are told to go elsewhere.

use std::time::Instant;

use tracing::info;

use super::{Core, Effect, Timer, Turn};

/// Whether the broker takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Until then at most, requests in hand may end.
    Stopping(Instant),
    Stopped,
}

impl Core {
    pub(super) fn begin_shutdown(&mut self, turn: &mut Turn<'_>) {
        if self.phase != Phase::Running {
            return;
        }
        let until = turn.now + self.config.shutdown_grace;
        self.phase = Phase::Stopping(until);
        self.timers.set(until, Timer::Shutdown);
        turn.out.push(Effect::Unbind);
        let mut dropped = 0;
        for key in self.services.keys() {
            for request in self.services.take(key) {
                dropped += u64::from(self.peers.on_waited(&request.client, request.visit));
            }
            self.arm_service(turn.now, key);
            self.tidy(key);
        }
        self.counters.dropped += dropped;
        info!(in_hand = self.workers.busy, dropped, "shutting down");
    }

    /// Ends at once when no request is in hand any more.
    pub(super) fn check_shutdown(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Stopping(until) = self.phase
            && self.workers.busy == 0
        {
            self.timers.clear(until, Timer::Shutdown);
            self.finish_shutdown(turn);
        }
    }

    pub(super) fn finish_shutdown(&mut self, turn: &mut Turn<'_>) {
        self.dismiss_all(turn);
        self.counters.given_up += self.workers.busy as u64;
        info!(workers = self.workers.len(), given_up = self.workers.busy, "stopped");
        self.phase = Phase::Stopped;
        turn.out.push(Effect::Stop);
    }
}
