//! [`MemoryStore`]: no store.

use super::{Record, Store, StoreError, StoreSeq};

/// Keeps nothing beyond the process, so every record is as safe as it will ever be at once.
#[derive(Debug, Default)]
pub struct MemoryStore {
    appended: StoreSeq,
}

impl Store for MemoryStore {
    fn append(&mut self, _record: Record) {
        self.appended.0 += 1;
    }

    fn commit(&mut self) -> Result<StoreSeq, StoreError> {
        Ok(self.appended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emqp::MsgId;

    #[test]
    fn everything_appended_is_committed() {
        let mut store = MemoryStore::default();
        assert_eq!(store.commit().unwrap(), StoreSeq::NONE);
        let msgid = MsgId::new("1").unwrap();
        store.append(Record::Dispatched { msgid: msgid.clone() });
        store.append(Record::Ended { msgid });
        assert_eq!(store.commit().unwrap(), StoreSeq(2));
    }
}
