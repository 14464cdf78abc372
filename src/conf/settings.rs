//! The one table of settings. The parsing of files, environment and flags, `--help`, `emq config`, the near-miss
//! suggestions and the tests all read it; nothing about a setting is said anywhere else.
//!
//! Names and defaults that Python's EventMQ has are its own; Python reads the router's from `[global]` alone.

use std::time::Duration;

use zmtp::Endpoint;

use super::key::Kind::{Address, Choice, Count, Json, Seconds, Secret, Size, Switch, Text};
use super::key::Program::{self, JobManager, Publisher, Router, Scheduler};
use super::key::Python::{New, OnlyThere, Same};
use super::key::{Key, Kind, Setting, settings};
use super::values::{self, Bound, LogFormat, LogLevel, Memory, Show};
use crate::broker::{JobTracking, UnknownQueue};
use crate::emqp::{QueueName, QueueWeight};

const ALL: &[Program] = Program::ALL;
/// What takes part in heartbeats.
const BEATING: &[Program] = &[Router, Scheduler, JobManager];
/// What connects to a broker.
const PEERS: &[Program] = &[Scheduler, JobManager];

settings! {
    // Addresses.

    /// Where the broker listens for clients and schedulers. Addresses that are equal share one socket.
    FRONTEND_ADDR: Endpoint = "frontend_addr" values::bind_address, Address, default "tcp://127.0.0.1:47291",
        for &[Router], Same;
    /// Where the broker listens for workers.
    BACKEND_ADDR: Endpoint = "backend_addr" values::bind_address, Address, default "tcp://127.0.0.1:47290",
        for &[Router], Same;
    /// Where the broker listens for administration (emq-cli).
    ADMINISTRATIVE_ADDR: Endpoint = "administrative_addr" values::bind_address, Address,
        default "tcp://127.0.0.1:47293", for &[Router], Same;
    /// The broker's frontend, as schedulers reach it.
    SCHEDULER_ADDR: Endpoint = "scheduler_addr" values::connect_address, Address, default "tcp://127.0.0.1:47291",
        for &[Scheduler], Same;
    /// The broker's backend, as job managers reach it.
    WORKER_ADDR: Endpoint = "worker_addr" values::connect_address, Address, default "tcp://127.0.0.1:47290",
        for &[JobManager], Same;
    /// The first of two brokers a job manager alternates between when one goes silent.
    WORKER_ADDR_DEFAULT: Endpoint = "worker_addr_default" values::connect_address, Address,
        default "tcp://127.0.0.1:47290", for &[JobManager], Same;
    /// The second of two brokers a job manager alternates between when one goes silent.
    WORKER_ADDR_FAILOVER: Endpoint = "worker_addr_failover" values::connect_address, Address,
        default "tcp://127.0.0.1:47290", for &[JobManager], Same;
    /// Where the publisher listens for what is published.
    PUBLISHER_INCOMING_ADDR: Endpoint = "publisher_incoming_addr" values::bind_address, Address,
        default "tcp://127.0.0.1:47298", for &[Publisher], Same;
    /// Where the publisher listens for subscribers.
    PUBLISHER_OUTGOING_ADDR: Endpoint = "publisher_outgoing_addr" values::bind_address, Address,
        default "tcp://127.0.0.1:47299", for &[Publisher], Same;

    // Queues and jobs.

    /// The queue of jobs that name none, or (see unknown_queue) one that no worker serves.
    DEFAULT_QUEUE_NAME: QueueName = "default_queue_name" values::queue_name, Text, default "default",
        for &[Router, Scheduler], Same;
    /// The weight of a queue whose worker gave none.
    DEFAULT_QUEUE_WEIGHT: QueueWeight = "default_queue_weight" values::weight, Count("number"), default "10",
        for &[Router, JobManager], Same;
    /// Weights and names of queues: those a job manager serves, and in the broker those of a worker that names none.
    QUEUES: Vec<(QueueWeight, QueueName)> = "queues" values::queues, Json, default "[[10, \"default\"]]",
        for &[Router, JobManager], Same;
    /// Whether a job for a queue that no worker serves goes to the default queue, as in Python, or is held under its
    /// own name until a worker comes.
    UNKNOWN_QUEUE: UnknownQueue = "unknown_queue" values::unknown_queue, Choice("default|hold"), default "default",
        for &[Router], New;
    /// Most jobs waiting in one queue; more are refused with an error reply.
    HWM: usize = "hwm" values::positive, Count("jobs"), default "10000", for &[Router], Same;
    /// Most memory for waiting jobs, as bytes or a share of the machine's (or container's) memory; more are refused.
    WAITING_MEMORY: Memory = "waiting_memory" values::memory, Kind::Memory, default "50%", for &[Router], New;
    /// Most deliveries of one job before it is dead, unless its own retry-count asks for more.
    DELIVERY_LIMIT: u32 = "delivery_limit" values::times, Count("deliveries"), default "3", for &[Router], New;
    /// Pause before the first retry of a failed job; it doubles with each further one.
    RETRY_BACKOFF: Duration = "retry_backoff" values::seconds, Seconds, default "1", for &[Router], New;
    /// Longest pause before a retry.
    RETRY_BACKOFF_MAX: Duration = "retry_backoff_max" values::seconds, Seconds, default "60", for &[Router], New;
    /// Added to a job's own timeout before the broker gives the job up.
    TIMEOUT_GRACE: Duration = "timeout_grace" values::seconds, Seconds, default "5", for &[Router], New;
    /// How long a worker lets a job run that has no timeout of its own. Keep it equal on broker and job managers.
    GLOBAL_TIMEOUT: Duration = "global_timeout" values::positive_seconds, Seconds, default "300",
        for &[Router, JobManager], Same;
    /// Most dead jobs kept for inspection; the oldest go first.
    DEAD_LIMIT: usize = "dead_limit" values::count, Count("jobs"), default "1000", for &[Router], New;
    /// Which jobs are followed to their end, so that a lost one is reported by its id: all, or only those that ask for
    /// a reply, a guarantee or retries.
    JOB_TRACKING: JobTracking = "job_tracking" values::tracking, Choice("all|asked"), default "all",
        for &[Router], New;
    /// How long running jobs may go on once the broker was told to stop.
    SHUTDOWN_GRACE: Duration = "shutdown_grace" values::seconds, Seconds, default "30", for &[Router], New;

    // Heartbeats of eMQP.

    /// Whether to do without heartbeats: none are sent, and nobody is lost for want of them.
    DISABLE_HEARTBEATS: bool = "disable_heartbeats" values::switch, Switch, default "false", for BEATING, Same;
    /// Pause between two heartbeats sent to the same peer. Must be well below heartbeat_timeout.
    HEARTBEAT_INTERVAL: Duration = "heartbeat_interval" values::positive_seconds, Seconds, default "3",
        for BEATING, Same;
    /// How long a peer may be silent before a heartbeat counts as missed; a worker whose connection broke is kept as
    /// long.
    HEARTBEAT_TIMEOUT: Duration = "heartbeat_timeout" values::positive_seconds, Seconds, default "5",
        for BEATING, Same;
    /// A peer that missed so many heartbeats is lost.
    HEARTBEAT_LIVENESS: u32 = "heartbeat_liveness" values::times, Count("heartbeats"), default "3",
        for BEATING, Same;
    /// Pause before connecting to a broker again.
    RECONNECT_TIMEOUT: Duration = "reconnect_timeout" values::positive_seconds, Seconds, default "5",
        for PEERS, Same;

    // Connections.

    /// Most connections at a time, for each socket; more are closed as they come. auto: the limit of open files
    /// (ulimit -n) less a reserve.
    MAX_CONNECTIONS: Bound = "max_connections" values::bound, Count("auto or number"), default "auto",
        for &[Router], New;
    /// Most connections at a time whose handshake is not finished, for each socket.
    MAX_PENDING_HANDSHAKES: usize = "max_pending_handshakes" values::positive, Count("connections"), default "1024",
        for &[Router], New;
    /// How long a peer may take for its handshake.
    HANDSHAKE_TIMEOUT: Duration = "handshake_timeout" values::positive_seconds, Seconds, default "30",
        for &[Router], New;
    /// Largest frame a peer may send; a larger one closes its connection.
    MAX_FRAME_SIZE: u64 = "max_frame_size" values::size, Size, default "256 MiB", for &[Router, JobManager], New;
    /// Largest message, all frames together, that a peer may send; a larger one closes its connection.
    MAX_MESSAGE_SIZE: u64 = "max_message_size" values::size, Size, default "512 MiB", for &[Router, JobManager], New;
    /// Pause between two PINGs of a connection (ZMTP 3.1 peers only); 0 sends none.
    ZMTP_HEARTBEAT_INTERVAL: Duration = "zmtp_heartbeat_interval" values::seconds, Seconds, default "1",
        for &[Router], New;
    /// How long a connection may be silent after a PING before it is closed.
    ZMTP_HEARTBEAT_TIMEOUT: Duration = "zmtp_heartbeat_timeout" values::positive_seconds, Seconds, default "5",
        for &[Router], New;
    /// Most messages queued for one peer.
    SEND_HWM: usize = "send_hwm" values::positive, Count("messages"), default "10000", for &[Router], New;
    /// Most messages of one peer read and not dealt with yet; its connection is not read from meanwhile.
    RECEIVE_HWM: usize = "receive_hwm" values::positive, Count("messages"), default "1000", for &[Router], New;
    /// Most ZeroMQ sockets of one process.
    MAX_SOCKETS: usize = "max_sockets" values::count, Count("sockets"), default "1024", for ALL,
        OnlyThere("it bounds sockets of libzmq, which is not used; max_connections bounds connections");

    // Logging.

    /// Whether to log what is done with single messages: log_level is at least debug then, unless it is given by a flag.
    SUPER_DEBUG: bool = "super_debug" values::switch, Switch, default "false", for ALL, Same;
    /// Whether heartbeats are left out of that.
    HIDE_HEARTBEAT_LOGS: bool = "hide_heartbeat_logs" values::switch, Switch, default "true", for ALL, Same;
    /// What is logged: this and everything more urgent.
    LOG_LEVEL: LogLevel = "log_level" values::log_level, Choice("error|warn|info|debug|trace"), default "info",
        for ALL, New;
    /// How it is logged: lines for people, or one JSON object per line.
    LOG_FORMAT: LogFormat = "log_format" values::log_format, Choice("text|json"), default "text", for ALL, New;

    // The job manager.

    /// How many jobs a job manager runs at a time.
    CONCURRENT_JOBS: usize = "concurrent_jobs" values::positive, Count("jobs"), default "4", for &[JobManager], Same;
    /// How many jobs a worker process runs before another takes its place.
    MAX_JOB_COUNT: usize = "max_job_count" values::positive, Count("jobs"), default "1024", for &[JobManager], Same;
    /// How long running jobs may go on once a job manager was told to stop.
    KILL_GRACE_PERIOD: Duration = "kill_grace_period" values::seconds, Seconds, default "300",
        for &[JobManager], Same;
    /// A function, module and name, called once in each new worker process.
    SUBPROCESS_SETUP_FUNC: String = "subprocess_setup_func" values::text, Text, default "", for &[JobManager], Same;
    /// A function called before each job.
    JOB_ENTRY_FUNC: String = "job_entry_func" values::text, Text, default "", for &[JobManager], Same;
    /// A function called after each job.
    JOB_EXIT_FUNC: String = "job_exit_func" values::text, Text, default "", for &[JobManager], Same;
    /// Deprecated, with setup_callable: use subprocess_setup_func.
    SETUP_PATH: String = "setup_path" values::text, Text, default "", for &[JobManager], Same;
    /// Deprecated, with setup_path: use subprocess_setup_func.
    SETUP_CALLABLE: String = "setup_callable" values::text, Text, default "", for &[JobManager], Same;

    /// The Python interpreter (3.8 or newer) that runs jobs: a path, or a name to look for in PATH.
    PYTHON: String = "python" values::name, Text, default "python3", for &[JobManager], New;
    /// The only callables that may run, as a comma-separated list of names, in which * stands for anything: for example
    /// jobs.email.send, jobs.report:Report.build, jobs.nightly.*. Empty: any. With * whatever a module has imported may
    /// run as well.
    ALLOWED_CALLABLES: String = "allowed_callables" values::text, Text, default "", for &[JobManager], New;
    /// Largest result of a job; one that is larger fails its job.
    MAX_RESULT_SIZE: u64 = "max_result_size" values::size, Size, default "64 MiB", for &[JobManager], New;
    /// How long a job past its timeout has from SIGTERM to SIGKILL. Keep it below the broker's timeout_grace.
    TERMINATE_GRACE: Duration = "terminate_grace" values::seconds, Seconds, default "0.5", for &[JobManager], New;

    // The scheduler's Redis.

    /// The host of the Redis server that keeps schedules.
    RQ_HOST: String = "rq_host" values::text, Text, default "localhost", for &[Scheduler], Same;
    /// The port of that server.
    RQ_PORT: u16 = "rq_port" values::port, Count("port"), default "6379", for &[Scheduler], Same;
    /// The number of the database in it.
    RQ_DB: usize = "rq_db" values::count, Count("number"), default "0", for &[Scheduler], Same;
    /// The password of that server; empty for none.
    RQ_PASSWORD: String = "rq_password" values::text, Secret, default "", for &[Scheduler], Same;
    /// The Python class that talks to Redis.
    REDIS_CLIENT_CLASS: String = "redis_client_class" values::text, Text, default "redis.StrictRedis",
        for &[Scheduler], OnlyThere("the Redis client is built in");
    /// Arguments of that class.
    REDIS_CLIENT_CLASS_KWARGS: serde_json::Map<String, serde_json::Value> = "redis_client_class_kwargs"
        values::object, Json, default "{}", for &[Scheduler], OnlyThere("the Redis client is built in");
    /// Whether a scheduler that cannot reach Redis at its start gives up.
    REDIS_STARTUP_ERROR_HARD_KILL: bool = "redis_startup_error_hard_kill" values::switch, Switch, default "true",
        for &[Scheduler], Same;

    // What only Python's programs do.

    /// Where Python's router writes the messages it received.
    WAL: String = "wal" values::text, Text, default "/var/log/eventmq/wal.log", for &[Router],
        OnlyThere("messages are not logged to a file; log_level = trace shows them");
    /// Whether Python's router writes them.
    WAL_ENABLED: bool = "wal_enabled" values::switch, Switch, default "false", for &[Router],
        OnlyThere("messages are not logged to a file; log_level = trace shows them");
    /// The name of the conf file itself.
    CONFIG_FILE: String = "config_file" values::text, Text, default "/etc/eventmq.conf", for ALL,
        OnlyThere("a file cannot name another; use -C FILE or the variable EVENTMQ_CONFIG_FILE");
    /// The encoding of texts in messages.
    DEFAULT_ENCODING: String = "default_encoding" values::text, Text, default "utf-8", for ALL,
        OnlyThere("texts are UTF-8 and job payloads are passed on as they are");
}
