//! Services: what waits for them, and which of their workers are idle.

use std::collections::BTreeSet;
use std::time::Instant;

use hashbrown::HashMap;
use slab::Slab;
use zmtp::{Message, RoutingId};

use super::ServiceView;
use super::peers::Visit;
use super::workers::WorkerKey;
use crate::dispatch::Waiting;
use crate::mdp::wire::{Delimiter, ServiceName, Version};

/// Names a service. Given to another once the service has neither workers nor requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceKey(usize);

/// A client's request: it lives in a service's queue or with a worker, and moves from one to the other.
#[derive(Debug)]
pub(super) struct Request {
    pub client: RoutingId,
    pub visit: Visit,
    pub version: Version,
    pub delimiter: Delimiter,
    pub body: Message,
    /// Its place among all requests.
    pub arrival: u64,
    pub received: Instant,
    /// Workers it was given to.
    pub attempts: u32,
}

impl Request {
    /// What it weighs while it waits, in bytes.
    pub fn size(&self) -> usize {
        self.body.wire_len() + size_of::<Self>()
    }
}

/// One service.
#[derive(Debug)]
pub(super) struct Service {
    pub name: ServiceName,
    waiting: Waiting<Request>,
    /// Bytes of the requests waiting.
    pub bytes: usize,
    /// Workers without a request, in the order in which they became so.
    pub idle: BTreeSet<(u64, WorkerKey)>,
    /// Registered workers.
    pub workers: usize,
    /// When the oldest request is looked at.
    pub wake: Option<Instant>,
}

impl Service {
    /// Requests waiting.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The oldest request.
    pub fn oldest(&self) -> Option<&Request> {
        self.waiting.first()
    }
}

/// All services that have a worker or a request. A name that is only mentioned adds none.
#[derive(Debug, Default)]
pub(super) struct Services {
    slab: Slab<Service>,
    by_name: HashMap<ServiceName, ServiceKey>,
    /// Bytes of all requests waiting.
    pub bytes: usize,
    /// All requests waiting.
    pub waiting: usize,
}

impl Services {
    pub fn find(&self, name: &[u8]) -> Option<ServiceKey> {
        self.by_name.get(name).copied()
    }

    /// The service of this name, made if there is none: then give it something, or [`tidy`](Self::tidy) it.
    pub fn require(&mut self, name: &[u8]) -> Option<ServiceKey> {
        if let Some(key) = self.find(name) {
            return Some(key);
        }
        let name = ServiceName::new(name).ok()?;
        let waiting = Waiting::default();
        let service = Service { name: name.clone(), waiting, bytes: 0, idle: BTreeSet::new(), workers: 0, wake: None };
        let key = ServiceKey(self.slab.insert(service));
        self.by_name.insert(name, key);
        Some(key)
    }

    /// Forgets a service that has neither workers nor requests; gives back when it was to be looked at.
    pub fn tidy(&mut self, key: ServiceKey) -> Option<Instant> {
        self.get(key).filter(|service| service.workers == 0 && service.waiting.is_empty())?;
        let service = self.slab.remove(key.0);
        self.by_name.remove(&service.name);
        service.wake
    }

    pub fn get(&self, key: ServiceKey) -> Option<&Service> {
        self.slab.get(key.0)
    }

    pub fn get_mut(&mut self, key: ServiceKey) -> Option<&mut Service> {
        self.slab.get_mut(key.0)
    }

    /// Puts a request in its place by arrival.
    pub fn push(&mut self, key: ServiceKey, request: Request) {
        let Some(service) = self.slab.get_mut(key.0) else { return };
        service.bytes += request.size();
        self.bytes += request.size();
        self.waiting += 1;
        service.waiting.insert(request.arrival, request);
    }

    /// Takes the oldest request out.
    pub fn pop(&mut self, key: ServiceKey) -> Option<Request> {
        let service = self.slab.get_mut(key.0)?;
        let request = service.waiting.pop()?;
        service.bytes -= request.size();
        self.bytes -= request.size();
        self.waiting -= 1;
        Some(request)
    }

    /// Takes all requests of a service out, oldest first.
    pub fn take(&mut self, key: ServiceKey) -> Vec<Request> {
        std::iter::from_fn(|| self.pop(key)).collect()
    }

    pub fn keys(&self) -> Vec<ServiceKey> {
        self.slab.iter().map(|(key, _)| ServiceKey(key)).collect()
    }

    pub fn views(&self) -> Vec<ServiceView> {
        let view = |(_, service): (usize, &Service)| ServiceView {
            name: service.name.clone(),
            workers: service.workers,
            idle: service.idle.len(),
            waiting: service.waiting.len(),
        };
        self.slab.iter().map(view).collect()
    }
}
