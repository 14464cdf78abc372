//! The client, with a broker of this crate and workers of bare sockets.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use eventmq::broker::{BrokerConfig, Server, ServerConf, ServerHandle};
use eventmq::client::{CallError, Client, FullQueues, Job, SubmitError};
use eventmq::emqp::{JobErrorKind, MsgId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use zmtp::{Dealer, Endpoint, Message, Router};

/// More than anything here should take.
const LONG: Duration = Duration::from_secs(30);

struct Broker {
    clients: Endpoint,
    workers: Endpoint,
    handle: ServerHandle,
}

async fn broker(hwm: usize) -> Broker {
    let any: Endpoint = "tcp://127.0.0.1:0".parse().unwrap();
    let core = BrokerConfig { hwm, ..BrokerConfig::default() };
    let conf = ServerConf { frontend: any.clone(), backend: any.clone(), admin: any, core, ..ServerConf::default() };
    let server = Server::bind(conf).await.unwrap();
    let broker =
        Broker { clients: server.frontend().clone(), workers: server.backend().clone(), handle: server.handle() };
    tokio::spawn(server.run());
    broker
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

fn message(frames: &[&[u8]]) -> Message {
    Message::from_frames([b"", &b"eMQP/1.0"[..]].iter().chain(frames))
}

/// A worker of `slots` slots; tells the ids of the jobs it did. `echo` returns its arguments, `fail` fails.
async fn worker(broker: &Broker, slots: usize) -> mpsc::UnboundedReceiver<MsgId> {
    let mut worker = Dealer::builder().build();
    worker.connect(&broker.workers).unwrap();
    worker.send(message(&[b"INFORM", b"1", b"", b"worker"])).await.unwrap();
    for _ in 0..slots {
        worker.send(message(&[b"READY", b"2"])).await.unwrap();
    }
    let (done, jobs) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(request) = worker.recv().await {
            if request.frame(2) != Some(b"REQUEST") {
                continue;
            }
            let msgid = request.frame(3).unwrap();
            let (_, call): (String, Value) = serde_json::from_slice(request.frame(6).unwrap()).unwrap();
            let result = match call["callable"].as_str() {
                Some("echo") => json!({ "value": call["args"] }),
                _ => json!({ "value": "no", "error": {"type": "ValueError", "message": "no"} }),
            };
            if String::from_utf8_lossy(request.frame(5).unwrap()).contains("reply-requested") {
                worker.send(message(&[b"REPLY", b"3", result.to_string().as_bytes(), msgid])).await.unwrap();
            }
            worker.send(message(&[b"READY", b"4"])).await.unwrap();
            let _ = done.send(MsgId::new(msgid).unwrap());
        }
    });
    jobs
}

fn echo(n: usize) -> Job {
    Job::new("jobs", "echo").arg(n).deadline(LONG)
}

#[tokio::test]
async fn calls_return_values_and_failures() {
    let broker = broker(10).await;
    let _jobs = worker(&broker, 1).await;
    let client = Client::connect(&broker.clients).unwrap();
    let values: [u64; 2] = client.call(echo(1).arg(2)).await.unwrap();
    assert_eq!(values, [1, 2]);
    let Err(CallError::Failed(failure)) = client.call::<Value>(Job::new("jobs", "fail")).await else {
        panic!("no failure")
    };
    assert_eq!((failure.to_string(), failure.broker_kind()), ("ValueError: no".to_owned(), None));
    let wrong = client.call::<String>(echo(1)).await.unwrap_err();
    assert!(matches!(&wrong, CallError::Result { raw, .. } if raw == "[1]"), "{wrong}");
    let handle = client.start(echo(7).id(MsgId::new("seven").unwrap())).await.unwrap();
    assert_eq!(handle.msgid().as_bytes(), b"seven");
    assert_eq!(handle.await.unwrap(), json!([7]));
}

#[tokio::test]
async fn batches_keep_their_order() {
    let broker = broker(10_000).await;
    let _jobs = worker(&broker, 4).await;
    // Few at a time, so that the batch has to wait for room often.
    let client = Client::builder().max_unaccepted(7).connect(&broker.clients).unwrap();
    let results = client.call_all((0..1000).map(echo)).await;
    let results: Vec<_> = results.into_iter().map(|result| result.unwrap()[0].as_u64().unwrap()).collect();
    assert_eq!(results, (0..1000).collect::<Vec<u64>>());
    let ids: Vec<_> = (0..1000).map(|n| MsgId::new(format!("job {n}")).unwrap()).collect();
    let jobs = ids.iter().enumerate().map(|(n, id)| echo(n).id(id.clone()));
    let accepted: Vec<_> = client.submit_all(jobs).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(accepted, ids);
}

#[tokio::test]
async fn a_full_queue_is_an_error_or_waited_for() {
    let broker = broker(3).await;
    let impatient = Client::connect(&broker.clients).unwrap();
    let answers = impatient.submit_all((0..5).map(echo)).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 2);
    for error in refused {
        assert!(!error.may_run());
        let SubmitError::Refused(failure) = error else { panic!("{error}") };
        assert_eq!(failure.broker_kind(), Some(JobErrorKind::QueueFull));
    }
    let patient = Client::builder().full_queues(FullQueues::Wait).connect(&broker.clients).unwrap();
    let submitting = tokio::spawn(async move { patient.submit_all((0..20).map(echo)).await });
    let mut jobs = worker(&broker, 1).await;
    assert_eq!(submitting.await.unwrap().into_iter().filter(Result::is_ok).count(), 20);
    for _ in 0..23 {
        jobs.recv().await.unwrap();
    }
}

#[tokio::test]
async fn without_a_broker_a_job_was_surely_not_sent() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::builder().acceptance_timeout(Duration::from_millis(50)).connect(&nobody.into()).unwrap();
    let error = client.submit(Job::new("m", "f").guarantee()).await.unwrap_err();
    assert!(matches!(error, SubmitError::NotConnected { .. }) && !error.may_run(), "{error}");
    assert!(matches!(client.post(Job::new("m", "f")).await, Err(SubmitError::NotConnected { .. })));
    client.close().await;
}

#[tokio::test]
async fn a_broker_that_says_nothing_leaves_it_unknown_and_holds_submitting_up() {
    let mut mute = Router::builder().build();
    let endpoint = mute.bind(&"tcp://127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = Client::builder().max_unaccepted(1).connect(&endpoint).unwrap();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.submit(echo(1).deadline(Duration::from_millis(600))).await }
    });
    assert_eq!(mute.recv().await.unwrap().1.frame(2), Some(&b"REQUEST"[..]));
    let second = client.submit(echo(2).deadline(Duration::from_millis(50))).await;
    assert!(matches!(second, Err(SubmitError::Busy { .. })), "{second:?}");
    let error = first.await.unwrap().unwrap_err();
    assert!(matches!(error, SubmitError::Unconfirmed { .. }) && error.may_run(), "{error}");
    // Its place is free again.
    let third = client.submit(echo(3).deadline(Duration::from_millis(50))).await;
    assert!(matches!(third, Err(SubmitError::Unconfirmed { .. })), "{third:?}");
}

#[tokio::test]
async fn a_future_that_is_dropped_holds_nothing_up() {
    let broker = broker(10).await;
    let mut jobs = worker(&broker, 1).await;
    let client = Client::builder().max_unaccepted(1).connect(&broker.clients).unwrap();
    tokio::select! {
        biased;
        _ = client.call::<Value>(echo(1).id(MsgId::new("dropped").unwrap())) => panic!("too fast"),
        () = std::future::ready(()) => {}
    }
    drop(client.start(echo(2)).await.unwrap());
    assert_eq!(client.call::<Vec<u64>>(echo(3)).await.unwrap(), [3]);
    // It was handed over before it was dropped.
    assert_eq!(jobs.recv().await.unwrap().as_bytes(), b"dropped");
}

#[tokio::test]
async fn closing_waits_for_what_was_handed_over() {
    let broker = broker(1000).await;
    let client = Client::connect(&broker.clients).unwrap();
    for n in 0..500 {
        client.post(echo(n)).await.unwrap();
    }
    let other = client.clone();
    client.close().await;
    assert!(matches!(other.submit(echo(1)).await, Err(SubmitError::Closed)));
    let mut jobs = worker(&broker, 4).await;
    for _ in 0..500 {
        jobs.recv().await.unwrap();
    }
}
