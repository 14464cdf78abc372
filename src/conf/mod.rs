//! Settings: one table ([`settings`]), three sources (flags, environment, conf file), and what becomes of them
//! ([`RouterConf`], [`JobManagerConf`], [`SchedulerConf`], [`PublisherConf`]).
//!
//! Texts and their origins are gathered first ([`Sources`], [`Resolved`]), values made of them afterwards, so every
//! message can say where a value stands. The rest of the library takes resolved structs and knows no file.
//!
//! ```
//! use eventmq::conf::{Flags, Machine, RouterConf};
//!
//! let variables = vec![("EVENTMQ_CONFIG_FILE".into(), "".into()), ("EVENTMQ_HWM".into(), "500".into())];
//! let loaded = RouterConf::load(&Flags::default(), &variables, &Machine::read())?;
//! assert_eq!(loaded.conf.server.core.hwm, 500);
//! assert_eq!(loaded.conf.server.frontend.to_string(), "tcp://127.0.0.1:47291");
//! # Ok::<(), eventmq::conf::ConfError>(())
//! ```

mod ini;
mod jobmanager;
mod key;
mod machine;
mod peer;
mod publisher;
mod reference;
mod report;
mod resolve;
mod router;
mod scheduler;
pub mod settings;
mod sources;
mod values;

pub use ini::{Entry, Ini, IniError, IniProblem, InterpolationError, Percent, Section};
pub use jobmanager::JobManagerConf;
pub use key::{GLOBAL_SECTION, Key, Kind, Program, Python, Setting, VARIABLE_PREFIX, find, nearest};
pub use machine::Machine;
pub use publisher::PublisherConf;
pub use reference::reference;
pub use report::{Assignment, ConfError, NamedBy, Notice, Origin, Urgency};
pub use resolve::{Effective, Resolved};
pub use router::{Loaded, LogConf, RouterConf};
pub use scheduler::{SchedulerConf, StoreConf, schedule_file};
pub use sources::{DEFAULT_FILE, FILE_VARIABLE, FlagValue, Flags, Sources, Variables, process_variables};
pub use values::{BadValue, Bound, FilePath, LogFormat, LogLevel, Memory, ScheduleStoreKind};
