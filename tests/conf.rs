//! Settings from the outside: the table, Python's reading of conf files, precedence, and what operators are told.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use eventmq::broker::{JobTracking, Roles, UnknownQueue};
use eventmq::conf::{
    ConfError, FlagValue, Flags, Ini, JobManagerConf, Loaded, LogLevel, Machine, Notice, Origin, Percent, Program,
    Python, RouterConf, Urgency, Variables, find, nearest, settings,
};
use serde_json::Value;

const MACHINE: Machine = Machine { memory: 8 << 30, open_files: 1024 };

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let mut all: Variables = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
    // No test may see a file of the machine it runs on.
    if !pairs.iter().any(|(name, _)| *name == "EVENTMQ_CONFIG_FILE") {
        all.push(("EVENTMQ_CONFIG_FILE".into(), "".into()));
    }
    all
}

fn flags(file: Option<&str>, pairs: &[(&str, &str)]) -> Flags {
    let value = |(key, value): &(&str, &str)| FlagValue {
        flag: format!("--set {key}"),
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    Flags { config: file.map(Into::into), values: pairs.iter().map(value).collect() }
}

fn load(flags: &Flags, environment: &[(&str, &str)]) -> Result<Loaded, ConfError> {
    RouterConf::load(flags, &variables(environment), &MACHINE)
}

fn set(pairs: &[(&str, &str)]) -> Result<RouterConf, ConfError> {
    load(&flags(None, pairs), &[]).map(|loaded| loaded.conf)
}

fn warnings(loaded: &Loaded) -> Vec<String> {
    let warnings = loaded.notices.iter().filter(|notice| notice.urgency() == Urgency::Warning);
    warnings.map(Notice::to_string).collect()
}

/// A conf file of this test alone.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("eventmq-{}-{name}.conf", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn load(&self) -> Result<Loaded, ConfError> {
        load(&flags(Some(self.0.to_str().unwrap()), &[]), &[])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

// The table.

#[test]
fn every_default_parses_and_is_canonical() {
    let mut names = BTreeSet::new();
    for setting in settings::TABLE {
        assert!(names.insert(setting.name), "{} is there twice", setting.name);
        assert!(setting.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", setting.name);
        assert!(setting.help.ends_with('.') && setting.help.len() > 10, "{}", setting.name);
        assert!(!setting.help.contains("  "), "{}", setting.name);
        let value = setting.check(setting.default).unwrap_or_else(|e| panic!("{} default {e}", setting.name));
        assert_eq!(setting.check(&value).unwrap(), value, "{}", setting.name);
        assert_eq!(setting.variable(), format!("EVENTMQ_{}", setting.name.to_uppercase()));
        assert_eq!(find(&setting.name.to_uppercase()).unwrap().name, setting.name);
    }
}

#[test]
fn the_table_has_all_of_pythons_settings_with_their_defaults_and_marks_the_new_ones() {
    let python: BTreeMap<String, Value> =
        serde_json::from_str(&fs::read_to_string("tests/conf/python-defaults.json").unwrap()).unwrap();
    for (name, default) in &python {
        let setting = find(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_ne!(setting.python, Python::New, "{name}");
        let text = match default {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert_eq!(setting.check(&text).unwrap(), setting.check(setting.default).unwrap(), "{name}");
    }
    for setting in settings::TABLE {
        assert_eq!(setting.python == Python::New, !python.contains_key(setting.name), "{}", setting.name);
    }
}

#[test]
fn every_setting_of_the_broker_changes_what_it_is_told() {
    let other = [
        ("frontend_addr", "tcp://127.0.0.1:1"),
        ("backend_addr", "tcp://127.0.0.1:2"),
        ("administrative_addr", "tcp://127.0.0.1:3"),
        ("default_queue_name", "main"),
        ("default_queue_weight", "-1"),
        ("queues", "[[1, \"a\"], [2, \"b\"]]"),
        ("unknown_queue", "hold"),
        ("hwm", "5"),
        ("waiting_memory", "1 GiB"),
        ("delivery_limit", "9"),
        ("retry_backoff", "0.5"),
        ("retry_backoff_max", "7"),
        ("timeout_grace", "0"),
        ("global_timeout", "9"),
        ("dead_limit", "0"),
        ("job_tracking", "asked"),
        ("shutdown_grace", "0.25"),
        ("disable_heartbeats", "true"),
        ("heartbeat_interval", "1.5"),
        ("heartbeat_timeout", "4"),
        ("heartbeat_liveness", "1"),
        ("max_connections", "10"),
        ("max_pending_handshakes", "11"),
        ("handshake_timeout", "12"),
        ("max_frame_size", "1 MiB"),
        ("max_message_size", "2 MiB"),
        ("zmtp_heartbeat_interval", "0"),
        ("zmtp_heartbeat_timeout", "13"),
        ("send_hwm", "14"),
        ("receive_hwm", "15"),
        ("super_debug", "true"),
        ("hide_heartbeat_logs", "false"),
        ("log_level", "error"),
        ("log_format", "json"),
    ];
    let usual = set(&[]).unwrap();
    for pair in &other {
        assert_ne!(set(&[*pair]).unwrap(), usual, "{}", pair.0);
    }
    let mut tested: Vec<_> = other.iter().map(|(key, _)| *key).collect();
    let mut matter: Vec<_> =
        settings::TABLE.iter().filter(|setting| setting.matters_to(Program::Router)).map(|s| s.name).collect();
    tested.sort_unstable();
    matter.sort_unstable();
    assert_eq!(tested, matter);
}

#[test]
fn every_setting_of_the_job_manager_changes_what_it_is_told() {
    let other = [
        ("worker_addr", "tcp://127.0.0.1:1"),
        ("worker_addr_default", "tcp://127.0.0.1:2"),
        ("worker_addr_failover", "tcp://127.0.0.1:3"),
        ("default_queue_weight", "-1"),
        ("queues", "[[1, \"a\"], [2, \"b\"]]"),
        ("global_timeout", "9"),
        ("disable_heartbeats", "true"),
        ("heartbeat_interval", "1.5"),
        ("heartbeat_timeout", "4"),
        ("heartbeat_liveness", "1"),
        ("reconnect_timeout", "1"),
        ("max_frame_size", "1 MiB"),
        ("max_message_size", "1 MiB"),
        ("super_debug", "true"),
        ("hide_heartbeat_logs", "false"),
        ("log_level", "error"),
        ("log_format", "json"),
        ("concurrent_jobs", "9"),
        ("max_job_count", "9"),
        ("kill_grace_period", "9"),
        ("subprocess_setup_func", "a.b"),
        ("job_entry_func", "a.b"),
        ("job_exit_func", "a.b"),
        ("setup_path", "a"),
        ("setup_callable", "b"),
        ("python", "python3.12"),
        ("allowed_callables", "a.b, c.*"),
        ("max_result_size", "1 MiB"),
        ("terminate_grace", "2"),
    ];
    let usual = JobManagerConf::load(&flags(None, &[]), &variables(&[])).unwrap().conf;
    let told = |pair| JobManagerConf::load(&flags(None, &[pair]), &variables(&[])).unwrap().conf;
    for pair in other {
        assert_ne!(told(pair), usual, "{}", pair.0);
    }
    let mut tested: Vec<_> = other.iter().map(|(key, _)| *key).collect();
    let mut matter: Vec<_> =
        settings::TABLE.iter().filter(|setting| setting.matters_to(Program::JobManager)).map(|s| s.name).collect();
    tested.sort_unstable();
    matter.sort_unstable();
    assert_eq!(tested, matter);
}

// Python's conf files.

#[test]
fn files_are_read_as_pythons_configparser_reads_them() {
    /// What Python made of a file: values by key, `None` where `%` means nothing; by section.
    type Sections = BTreeMap<String, BTreeMap<String, Option<String>>>;
    let expected: BTreeMap<String, Option<Sections>> =
        serde_json::from_str(&fs::read_to_string("tests/conf/expected.json").unwrap()).unwrap();
    assert_eq!(expected.len(), fs::read_dir("tests/conf/ini").unwrap().count());
    for (file, sections) in &expected {
        let ours = Ini::parse(&fs::read_to_string(format!("tests/conf/ini/{file}")).unwrap());
        assert_eq!(ours.is_ok(), sections.is_some(), "{file}: {ours:?}");
        let (Ok(ini), Some(sections)) = (ours, sections) else { continue };
        let own = |name: &&str| *name != "DEFAULT";
        assert!(ini.section_names().filter(own).eq(sections.keys().map(String::as_str)), "{file}");
        for (section, values) in sections {
            // Python lists what [DEFAULT] sets among each section's own.
            let (own, behind) = (ini.section(section).unwrap(), ini.section("DEFAULT"));
            let keys: BTreeSet<&String> = own.keys().chain(behind.into_iter().flatten().map(|(key, _)| key)).collect();
            assert_eq!(keys, values.keys().collect(), "{file} [{section}]");
            for (key, value) in values {
                let entry = own.get(key).or_else(|| behind?.get(key)).unwrap();
                let text = ini.interpolate(section, &entry.raw, Percent::Strict).ok();
                assert_eq!(&text, value, "{file} [{section}] {key}");
            }
        }
    }
}

#[test]
fn a_python_conf_file_loads_unchanged() {
    let loaded = load(&flags(Some("tests/conf/ini/dist.conf"), &[]), &[]).unwrap();
    assert_eq!(warnings(&loaded), Vec::<String>::new());
    let details: Vec<String> = loaded.notices.iter().map(Notice::to_string).collect();
    assert_eq!(
        details,
        [
            "tests/conf/ini/dist.conf, line 6, section [global]: max_sockets means nothing here: it bounds sockets of \
             libzmq, which is not used; max_connections bounds connections",
            "tests/conf/ini/dist.conf, line 14, section [global]: worker_addr is for other programs",
            "tests/conf/ini/dist.conf, line 15, section [global]: scheduler_addr is for other programs",
        ]
    );
    assert_eq!(loaded.conf.server.frontend.to_string(), "tcp://0.0.0.0:47291");
    assert!(loaded.conf.log.super_debug && loaded.conf.log.hide_heartbeats);
    assert_eq!(loaded.conf.log.level, LogLevel::Debug);
}

#[test]
fn oddities_are_told_and_do_not_stop_the_start() {
    let environment = [("EVENTMQ_CONFIG_FILE", "other.conf"), ("EVENTMQ_HVM", "1"), ("EVENTMQ_PORT", "x")];
    let loaded = load(&flags(Some("tests/conf/odd.conf"), &[]), &environment).unwrap();
    let at = |line: usize| format!("tests/conf/odd.conf, line {line}, section [global]: ");
    assert_eq!(
        warnings(&loaded),
        [
            "-C names tests/conf/odd.conf, EVENTMQ_CONFIG_FILE names other.conf: -C is followed, while Python would follow the \
             variable"
                .to_owned(),
            "environment variable EVENTMQ_HVM: there is no setting hvm (did you mean hwm?); it is ignored".to_owned(),
            "tests/conf/odd.conf: no program reads section [Router] (did you mean router?); it is ignored (names of \
             sections are case-sensitive)"
                .to_owned(),
            "tests/conf/odd.conf: no program reads section [shop]; it is ignored (names of sections are case-sensitive)"
                .to_owned(),
            at(6) + "there is no setting hwmm (did you mean hwm?); it is ignored",
            at(7) + "there is no setting heartbeat_intervall (did you mean heartbeat_interval?); it is ignored",
            at(8) + "there is no setting zebra; it is ignored",
            at(9)
                + "disable_heartbeats = \"1\" is taken as true, while Python's EventMQ takes it as false; write true or \
                   false to be understood by both",
            at(10)
                + "hide_heartbeat_logs = \"false # not now\" is taken as true, as in Python, because it contains a t; \
                   write true or false, with comments on lines of their own",
            at(14) + "queues is an empty list: a worker that names no queues will get no jobs",
        ]
    );
    assert_eq!(loaded.conf.server.frontend.to_string(), "tcp://127.0.0.1:1");
    assert_eq!(loaded.conf.server.core.hwm, 7);
    assert_eq!(loaded.conf.server.core.heartbeat_interval, None);
    assert_eq!(loaded.conf.server.core.waiting_bytes, (8 << 30) / 100 * 50);
}

#[test]
fn without_a_section_to_read_nothing_is_used() {
    let file = File::new("nothing", "[DEFAULT]\nhwm = 1\n[jobmanager]\nhwm = 2\n");
    let loaded = file.load().unwrap();
    assert_eq!(loaded.conf.server.core.hwm, 10_000);
    assert!(loaded.notices.iter().any(|notice| matches!(notice, Notice::NothingUsed { section: "router", .. })));
}

#[test]
fn slow_heartbeats_are_warned_about() {
    let slow = load(&flags(None, &[("heartbeat_interval", "5")]), &[]).unwrap();
    assert_eq!(slow.notices, [Notice::SlowHeartbeats]);
    let off = [("heartbeat_interval", "5"), ("disable_heartbeats", "true")];
    assert_eq!(load(&flags(None, &off), &[]).unwrap().notices, []);
}

// Precedence.

#[test]
fn the_nearest_source_counts_and_is_remembered() {
    let everywhere = File::new("all", "[DEFAULT]\nhwm = 1\n[global]\nhwm = 2\n[router]\nhwm = 3\n");
    let global = File::new("global", "[DEFAULT]\nhwm = 1\n[global]\nhwm = 2\n[router]\n");
    let behind = File::new("default", "[DEFAULT]\nhwm = 1\n[global]\n");
    let origin = |loaded: &Loaded| {
        let row = loaded.effective.iter().find(|row| row.setting.name == "hwm").unwrap();
        assert_eq!(row.value, loaded.conf.server.core.hwm.to_string());
        (loaded.conf.server.core.hwm, row.origin.clone())
    };
    let at = |file: &File, section: &str, line| Origin::File {
        path: file.0.clone().into(),
        section: section.to_owned(),
        line,
    };
    let path = everywhere.0.to_str();
    let environment = [("EVENTMQ_HWM", "4"), ("eventmq_hwm", "6"), ("EVENTMQ_hwm", "6")];

    let by_flag = load(&flags(path, &[("HWM", "5")]), &environment).unwrap();
    assert_eq!(origin(&by_flag), (5, Origin::Flag("--set HWM".to_owned())));
    let by_variable = load(&flags(path, &[]), &environment).unwrap();
    assert_eq!(origin(&by_variable), (4, Origin::Variable("EVENTMQ_HWM".to_owned())));
    assert_eq!(origin(&everywhere.load().unwrap()), (3, at(&everywhere, "router", 6)));
    assert_eq!(origin(&global.load().unwrap()), (2, at(&global, "global", 4)));
    assert_eq!(origin(&behind.load().unwrap()), (1, at(&behind, "DEFAULT", 2)));
    assert_eq!(origin(&load(&flags(None, &[]), &[]).unwrap()), (10_000, Origin::Default));

    let named = [("EVENTMQ_CONFIG_FILE", path.unwrap())];
    assert_eq!(load(&flags(None, &[]), &named).unwrap().conf.server.core.hwm, 3);
}

#[test]
fn a_level_asked_for_by_flag_is_not_raised_by_super_debug() {
    let debug = ("super_debug", "true");
    assert_eq!(set(&[debug]).unwrap().log.level, LogLevel::Debug);
    assert_eq!(set(&[debug, ("log_level", "trace")]).unwrap().log.level, LogLevel::Trace);
    assert_eq!(set(&[debug, ("log_level", "warn")]).unwrap().log.level, LogLevel::Warn);
    let by_variable = load(&flags(None, &[debug]), &[("EVENTMQ_LOG_LEVEL", "warn")]).unwrap();
    assert_eq!(by_variable.conf.log.level, LogLevel::Debug);
}

// What the broker is told.

#[test]
fn the_defaults() {
    let conf = set(&[]).unwrap();
    let roles: Vec<_> = conf.server.sockets().map(|(endpoint, roles)| (endpoint.to_string(), roles)).collect();
    let none = Roles::default();
    assert_eq!(
        roles,
        [
            ("tcp://127.0.0.1:47291".to_owned(), Roles { frontend: true, ..none }),
            ("tcp://127.0.0.1:47290".to_owned(), Roles { backend: true, ..none }),
            ("tcp://127.0.0.1:47293".to_owned(), Roles { admin: true, ..none }),
        ]
    );
    assert_eq!(conf.server.core.heartbeat_interval, Some(Duration::from_secs(3)));
    assert_eq!((conf.server.core.unknown_queue, conf.server.core.tracking), (UnknownQueue::Default, JobTracking::All));
    assert_eq!(conf.server.wire.max_connections, 1024 - 64);
    assert_eq!((conf.server.wire.limits.frame, conf.server.wire.limits.message), (256 << 20, 512 << 20));
}

#[test]
fn equal_addresses_share_a_socket() {
    let roles = |frontend: &str, backend: &str, admin: &str| {
        let conf = set(&[("frontend_addr", frontend), ("backend_addr", backend), ("administrative_addr", admin)]);
        let letters = |roles: Roles| {
            [(roles.frontend, 'f'), (roles.backend, 'b'), (roles.admin, 'a')].map(|(is, c)| if is { c } else { '-' })
        };
        let text = |(endpoint, roles): (&zmtp::Endpoint, Roles)| {
            format!("{}{}", endpoint.port(), letters(roles).iter().collect::<String>())
        };
        conf.unwrap().server.sockets().map(text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(roles("tcp://a:1", "tcp://A:1", "tcp://a:01"), "1fba");
    assert_eq!(roles("tcp://a:1", "tcp://a:1", "tcp://a:2"), "1fb- 2--a");
    assert_eq!(roles("tcp://a:1", "tcp://a:2", "tcp://a:1"), "1f-a 2-b-");
    assert_eq!(roles("tcp://a:1", "tcp://a:2", "tcp://a:2"), "1f-- 2-ba");
    // Port 0 asks for a port of one's own, three times here; ipc://* for a path.
    assert_eq!(roles("tcp://a:0", "tcp://a:0", "tcp://a:*"), "0f-- 0-b- 0--a");
    assert_eq!(roles("ipc:///run/emq", "ipc:///run/emq", "ipc://@emq"), "0fb- 0--a");
    assert_eq!(roles("ipc://*", "ipc://*", "tcp://a:1"), "0f-- 0-b- 1--a");
}

#[test]
fn a_frame_is_never_larger_than_a_message() {
    let conf = set(&[("max_message_size", "1 MiB")]).unwrap();
    assert_eq!((conf.server.wire.limits.frame, conf.server.wire.limits.message), (1 << 20, 1 << 20));
}

// What operators are told.

#[test]
fn errors_name_what_where_and_what_to_do() {
    let in_file = |file: &str| load(&flags(Some(file), &[]), &[]).unwrap_err().to_string();
    let golden = fs::read_to_string("tests/conf/errors.txt").unwrap();
    let mut told = String::new();
    for name in ["values", "transport", "syntax", "percent", "overlap", "backoff", "latin1", "missing"] {
        told.push_str(&format!("{}\n\n", in_file(&format!("tests/conf/bad/{name}.conf"))));
    }
    let by_set = |pairs: &[(&str, &str)]| load(&flags(None, pairs), &[]).unwrap_err().to_string();
    told.push_str(&format!("{}\n\n", by_set(&[("heartbeat-interval", "1")])));
    told.push_str(&format!("{}\n\n", by_set(&[("zebra", "1")])));
    told.push_str(&format!("{}\n\n", by_set(&[("hwm", "1"), ("HWM", "1")])));
    told.push_str(&format!("{}\n\n", by_set(&[("delivery_limit", "0")])));
    told.push_str(&format!("{}\n\n", by_set(&[("default_queue_name", "")])));
    told.push_str(&format!("{}\n", load(&flags(None, &[]), &[("EVENTMQ_HWM", "")]).unwrap_err()));
    assert_eq!(told, golden, "{told}");
}

#[test]
fn a_variable_that_is_not_text_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let mut environment = variables(&[]);
    environment.push(("EVENTMQ_HWM".into(), std::ffi::OsString::from_vec(vec![0xff])));
    let error = RouterConf::load(&Flags::default(), &environment, &MACHINE).unwrap_err();
    assert!(matches!(error, ConfError::VariableNotUtf8 { .. }));
    // What is not ours may be anything.
    environment.pop();
    environment.push(("HWM".into(), std::ffi::OsString::from_vec(vec![0xff])));
    assert!(RouterConf::load(&Flags::default(), &environment, &MACHINE).is_ok());
}

#[test]
fn near_misses() {
    let names = || settings::TABLE.iter().map(|setting| setting.name);
    for (mistyped, meant) in [
        ("frontend", Some("frontend_addr")),
        ("frontend_listen_addr", Some("frontend_addr")),
        ("frontend-addr", Some("frontend_addr")),
        ("heartbeat_intervall", Some("heartbeat_interval")),
        ("HEARTBEAT_TIMOUT", Some("heartbeat_timeout")),
        ("hwn", Some("hwm")),
        ("unkown_queue", Some("unknown_queue")),
        ("colour", None),
        ("service_host", None),
        ("port", None),
        ("", None),
    ] {
        assert_eq!(nearest(mistyped, names()), meant, "{mistyped}");
    }
}

/// An embedded broker and `emq router` without settings are the same, but for what depends on the machine.
#[test]
fn the_library_has_the_same_defaults() {
    let mut loaded = set(&[]).unwrap().server;
    let library = eventmq::broker::ServerConf::default();
    loaded.core.waiting_bytes = library.core.waiting_bytes;
    loaded.wire.max_connections = library.wire.max_connections;
    assert_eq!(loaded, library);
}
