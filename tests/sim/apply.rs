//! Faults, done to the world.

use std::time::Duration;

use eventmq::broker::{Input, SocketId};
use zmtp::{Message, RoutingId};

use crate::faults::{Fault, Notice, garbage, stranger};
use crate::frames::message;
use crate::peers::{Action, Cx, JobManager, Peer};
use crate::world::{What, World};

impl World {
    pub fn apply(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(worker, notice) => self.crash(worker, notice),
            Fault::KillChild(worker) => {
                if self.worker(worker, JobManager::kill_child) == Some(true) {
                    self.tally.count("fault: child killed");
                }
            }
            Fault::Freeze(worker, length) => {
                if let Some(index) = self.job_manager(worker) {
                    self.tally.count("fault: worker frozen");
                    self.freeze(index, length);
                }
            }
            Fault::Leave(worker) => self.tell(worker, "fault: worker drains", JobManager::leave),
            Fault::Desert(worker) => self.desert(worker),
            Fault::Inform(worker) => self.tell(worker, "fault: INFORM again", JobManager::inform),
            Fault::Ready(worker) => self.tell(worker, "fault: READY too many", JobManager::say_ready),
            Fault::Cut(peer, away, notice) => self.cut_link(peer, away, notice),
            Fault::CutBehindReply(worker, away, notice) => {
                if let Some(index) = self.job_manager(worker) {
                    self.peers[index].cut_behind_reply = Some((away, notice));
                }
            }
            Fault::Congest(peer, length) => {
                if let Some(link) = self.any_peer(peer).and_then(|index| self.peers[index].link) {
                    self.tally.count("fault: peer's queue full");
                    self.links[link].congested_until = self.now + length;
                }
            }
            Fault::Duplicate(peer) => self.duplicate(peer),
            Fault::Garbage(peer, kind) => {
                if let Some(index) = self.any_peer(peer).filter(|index| self.peers[*index].link.is_some()) {
                    self.tally.count("fault: garbage from a peer");
                    self.send(index, garbage(kind));
                }
            }
            Fault::StrangerWorker(kind) => self.stranger(self.socket(|roles| roles.backend), stranger(kind)),
            Fault::StrangerClient(kind) => self.stranger(self.socket(|roles| roles.frontend), garbage(kind)),
            Fault::Stall(length) => {
                self.tally.count("fault: broker stands still");
                self.stalled_until = self.stalled_until.max(self.now + length);
            }
            Fault::WallClock(forward) => {
                self.tally.count("fault: wall clock set");
                self.wall_offset = if forward { self.wall_offset + 86_400 } else { self.wall_offset - 86_400 };
            }
            Fault::SchedulerLeaves => self.scheduler_leaves(),
            Fault::Shutdown => {
                self.tally.count("fault: shutdown by signal");
                self.later(Duration::ZERO, What::Input(Input::Shutdown));
            }
            Fault::AdminShutdown => {
                self.tally.count("fault: shutdown by admin");
                self.stranger(self.socket(|roles| roles.admin), message("DISCONNECT", "admin:end", &[]));
            }
        }
    }

    /// Someone nobody knows connects and says the same thing twice.
    fn stranger(&mut self, socket: SocketId, says: Message) {
        self.tally.count("fault: a stranger talks");
        let index = self.add(Peer::Stranger, socket);
        let id = RoutingId::generated(1_000_000 + index as u32);
        self.act(index, |_, cx| {
            cx.actions.push(Action::Connect(id));
            cx.actions.push(Action::Send(says.clone()));
            cx.actions.push(Action::Send(says));
        });
    }

    /// The `n`th job manager, counted round and round.
    fn job_manager(&self, n: u8) -> Option<usize> {
        self.nth(n, |peer| matches!(peer, Peer::JobManager(_)))
    }

    fn any_peer(&self, n: u8) -> Option<usize> {
        self.nth(n, |peer| !matches!(peer, Peer::Stranger))
    }

    fn nth(&self, n: u8, which: impl Fn(&Peer) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.peers.len()).filter(|index| which(&self.peers[*index].peer)).collect();
        fitting.get(usize::from(n) % fitting.len().max(1)).copied()
    }

    fn worker<T>(&mut self, n: u8, with: impl FnOnce(&mut JobManager, &mut Cx<'_>) -> T) -> Option<T> {
        let index = self.job_manager(n)?;
        self.act(index, |peer, cx| match peer {
            Peer::JobManager(worker) => Some(with(worker, cx)),
            _ => None,
        })
    }

    /// Makes a registered worker do something.
    fn tell(&mut self, n: u8, what: &'static str, with: impl FnOnce(&mut JobManager, &mut Cx<'_>)) {
        let told = self.worker(n, |worker, cx| {
            let can = worker.is_working();
            if can {
                with(worker, cx);
            }
            can
        });
        if told == Some(true) {
            self.tally.count(what);
        }
    }

    fn crash(&mut self, n: u8, notice: Notice) {
        let Some(index) = self.job_manager(n) else { return };
        self.tally.count(match notice {
            Notice::Closed => "fault: crash, seen at once",
            Notice::Silent => "fault: crash, seen by PING",
            Notice::Never => "fault: crash, unseen",
        });
        // The link first: a crash by itself would close it, and the notice is what matters here.
        self.cut(index, notice);
        self.worker(n, JobManager::crash);
    }

    /// A new socket while the old connection stays open, and jobs go on.
    fn desert(&mut self, n: u8) {
        let Some(index) = self.job_manager(n) else { return };
        self.tally.count("fault: new identity, old connection open");
        self.cut(index, Notice::Never);
        self.worker(n, JobManager::open);
    }

    fn cut_link(&mut self, n: u8, away: Duration, notice: Notice) {
        let Some(index) = self.any_peer(n) else { return };
        if self.peers[index].link.is_none() {
            return;
        }
        self.tally.count(match (notice, away > Duration::from_secs(5)) {
            (Notice::Closed, false) => "fault: link cut for a moment",
            (Notice::Closed, true) => "fault: link cut for long",
            _ => "fault: link dead but not closed",
        });
        self.cut(index, notice);
        self.later(away, What::Reconnect(index));
    }

    /// The last message a peer sent arrives a second time.
    fn duplicate(&mut self, n: u8) {
        let Some(link) = self.any_peer(n).and_then(|index| self.peers[index].link) else { return };
        let id = self.links[link].id.clone();
        let last = self.recording.iter().rev().find_map(|recorded| match &recorded.input {
            Input::Received { from, message, .. } if *from == id => Some(message.clone()),
            _ => None,
        });
        if let Some(message) = last {
            self.tally.count("fault: message arrives twice");
            let peer = self.links[link].peer;
            self.send(peer, message);
        }
    }

    fn scheduler_leaves(&mut self) {
        let Some(index) = self.nth(0, |peer| matches!(peer, Peer::Scheduler(_))) else { return };
        self.tally.count("fault: scheduler leaves");
        self.act(index, |peer, cx| {
            if let Peer::Scheduler(scheduler) = peer {
                scheduler.leave(cx);
            }
        });
    }
}
