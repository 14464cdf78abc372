//! [`MemoryStore`]: keeps schedules for as long as the process runs.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Change, Saved, ScheduleStore, StoreError};
use crate::emqp::ScheduleId;
use crate::scheduler::Record;

/// A store for tests, and for schedules that are sent anew at every start.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: BTreeMap<ScheduleId, Record>,
    ran_until: Option<Timestamp>,
}

impl ScheduleStore for MemoryStore {
    fn load(&mut self, _now: Timestamp) -> Result<Saved, StoreError> {
        Ok(Saved { records: self.records.values().cloned().collect(), ran_until: self.ran_until })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        for change in changes {
            match change {
                Change::Put(record) => drop(self.records.insert(record.id(), record.clone())),
                Change::Remove(id) => drop(self.records.remove(id)),
                Change::RanUntil(time) => self.ran_until = Some(*time),
            }
        }
        Ok(())
    }

    fn place(&self) -> String {
        "memory only".to_owned()
    }
}
