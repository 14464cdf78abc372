//! A native worker and a broker in one process: what an embedding program sees.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test: what fails ends it")]

use std::sync::Arc;
use std::time::Duration;

use eventmq::broker::{Server, ServerConf, ServerHandle};
use eventmq::emqp::{Command, Envelope, MsgId, MsgIds, Reply, Request};
use eventmq::worker::{Call, HandlerError, HandlerResult, Worker, WorkerBuilder};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use zmtp::{Dealer, Endpoint};

/// Ample for anything that should take milliseconds on a busy machine.
const SOON: Duration = Duration::from_secs(20);

struct Broker {
    frontend: Endpoint,
    backend: Endpoint,
    handle: ServerHandle,
    running: JoinHandle<()>,
}

impl Broker {
    async fn start() -> Self {
        let any: Endpoint = "tcp://127.0.0.1:0".parse().unwrap();
        let conf = ServerConf { frontend: any.clone(), backend: any.clone(), admin: any, ..ServerConf::default() };
        let server = Server::bind(conf).await.unwrap();
        let (frontend, backend, handle) = (server.frontend().clone(), server.backend().clone(), server.handle());
        let running = tokio::spawn(async move { server.run().await.unwrap() });
        Self { frontend, backend, handle, running }
    }

    async fn stop(self) {
        self.handle.shutdown();
        tokio::time::timeout(SOON, self.running).await.expect("the broker ends").unwrap();
    }
}

struct Client {
    dealer: Dealer,
    ids: MsgIds,
}

impl Client {
    fn new(broker: &Broker) -> Self {
        let dealer = Dealer::builder().build();
        dealer.connect(&broker.frontend).unwrap();
        Self { dealer, ids: MsgIds::new(5) }
    }

    async fn submit(&mut self, callable: &str, args: Value, headers: &str) -> MsgId {
        let id = self.ids.next_id();
        let what = json!(["run", {"path": "jobs", "callable": callable, "args": args}]).to_string();
        let message = Request::build(&id, b"default", format!("reply-requested,{headers}").as_bytes(), what.as_bytes());
        self.dealer.send(message).await.unwrap();
        id
    }

    /// The next result, whose it may be.
    async fn result(&mut self) -> (MsgId, Value) {
        loop {
            let message = tokio::time::timeout(SOON, self.dealer.recv()).await.expect("a result").unwrap();
            if let Command::Reply(Reply::Result { result, request }) = Envelope::parse(&message).unwrap().command {
                return (request, serde_json::from_slice(result).unwrap());
            }
        }
    }

    async fn call(&mut self, callable: &str, args: Value, headers: &str) -> Value {
        let id = self.submit(callable, args, headers).await;
        let (of, result) = self.result().await;
        assert_eq!(of, id);
        result
    }
}

async fn add(call: Call) -> HandlerResult<i64> {
    Ok(call.arg::<i64>(0, "a")? + call.arg::<i64>(1, "b")?)
}

fn builder(broker: &Broker) -> WorkerBuilder {
    Worker::builder(broker.backend.clone()).handler("jobs.add", add)
}

#[tokio::test]
async fn handlers_run_by_name_and_failures_are_told_from_values() {
    let broker = Broker::start().await;
    let worker = builder(&broker)
        .handler(
            "jobs.parse",
            |call: Call| async move { Ok::<i32, HandlerError>(call.arg::<String>(0, "text")?.parse()?) },
        )
        .handler("jobs.own", |_| async { Err::<(), _>(HandlerError::new("OutOfStock", "no more of those")) })
        .build();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let mut client = Client::new(&broker);
    assert_eq!(client.call("add", json!([1, 2]), "").await, json!({"value": 3}));
    assert_eq!(client.call("parse", json!(["12"]), "").await, json!({"value": 12}));
    for (callable, args, kind) in [
        ("add", json!([1]), "TypeError"),
        ("parse", json!(["x"]), "ParseIntError"),
        ("own", json!([]), "OutOfStock"),
        ("nothing", json!([]), "UnknownCallable"),
    ] {
        let result = client.call(callable, args, "").await;
        assert_eq!(result["error"]["type"], kind, "{result}");
        assert!(result["value"].is_string());
    }
    handle.shutdown();
    tokio::time::timeout(SOON, running).await.expect("the worker ends").unwrap();
    broker.stop().await;
}

#[tokio::test]
async fn panics_and_endless_jobs_take_nothing_with_them() {
    let broker = Broker::start().await;
    let dropped = Arc::new(Notify::new());
    let guard = dropped.clone();
    let endless = move |_: Call| {
        struct Tell(Arc<Notify>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let tell = Tell(guard.clone());
        async move {
            let _tell = tell;
            std::future::pending::<HandlerResult<()>>().await
        }
    };
    let worker = builder(&broker)
        .concurrency(1)
        .handler("jobs.panic", |call: Call| async move {
            if call.args.is_empty() { panic!("at the disco") } else { HandlerResult::Ok(()) }
        })
        .handler("jobs.panic_early", |call: Call| {
            assert!(!call.args.is_empty(), "before it is a future");
            async { HandlerResult::Ok(()) }
        })
        .handler("jobs.endless", endless)
        .build();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let mut client = Client::new(&broker);
    for callable in ["panic", "panic_early"] {
        let result = client.call(callable, json!([]), "").await;
        assert_eq!(result["error"]["type"], "Panic", "{result}");
    }
    let result = client.call("endless", json!([]), "timeout:1").await;
    assert_eq!(result["error"]["type"], "TimeoutError", "{result}");
    tokio::time::timeout(SOON, dropped.notified()).await.expect("its future is dropped");
    assert_eq!(client.call("add", json!([20, 22]), "").await, json!({"value": 42}), "the one slot is back");
    handle.shutdown();
    tokio::time::timeout(SOON, running).await.expect("the worker ends").unwrap();
    broker.stop().await;
}

#[tokio::test]
async fn as_many_at_a_time_as_asked_and_a_shutdown_finishes_them() {
    let broker = Broker::start().await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (tell, wait) = (started.clone(), go.clone());
    let held = move |call: Call| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.add_permits(1);
            wait.acquire().await?.forget();
            HandlerResult::Ok(call.args)
        }
    };
    let worker = builder(&broker).concurrency(3).handler("jobs.held", held).build();
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let mut client = Client::new(&broker);
    for number in 0..3 {
        client.submit("held", json!([number]), "").await;
    }
    tokio::time::timeout(SOON, started.acquire_many(3)).await.expect("three run").unwrap().forget();
    client.submit("held", json!([3]), "").await;
    handle.shutdown();
    go.add_permits(3);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(client.result().await.1["value"][0].as_i64().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    tokio::time::timeout(SOON, running).await.expect("the worker ends").unwrap();
    assert_eq!(started.available_permits(), 0, "the fourth was not begun: it waits for another worker");
    broker.stop().await;
}
