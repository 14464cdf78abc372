//! The bridge's connection to an eMQP broker.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use zmtp::{
    Dealer, DealerReceiver, DealerSender, Endpoint, Message, Monitor, MonitorEvent, Reconnect, RoutingId, SendError,
};

use super::BrokerError;
use crate::mdp::core::{BridgeLink, Input};

/// Most results taken in and not dealt with.
const AHEAD: usize = 1000;

/// A client of an eMQP broker. It keeps its name over reconnections, so that results of jobs sent before reach it.
#[derive(Debug)]
pub(super) struct Bridge {
    sender: DealerSender,
    inputs: mpsc::Receiver<Input>,
}

impl Bridge {
    pub(super) fn connect(frontend: &Endpoint) -> Result<Self, BrokerError> {
        let pause = Duration::from_millis(100);
        let dealer = Dealer::builder()
            .routing_id(RoutingId::new(uuid::Uuid::new_v4().to_string())?)
            .reconnect(Reconnect { first: pause, longest: pause * 10 })
            // A job that nobody is there to take is better refused than run long after its client gave up.
            .immediate(true)
            .send_hwm(10_000)
            .linger(Duration::from_secs(1))
            .build();
        let monitor = dealer.monitor();
        dealer.connect(frontend)?;
        tracing::info!(endpoint = %frontend, "requests for emq.QUEUE go to this eMQP broker");
        let (sender, receiver) = dealer.split();
        let (to_hub, inputs) = mpsc::channel(AHEAD);
        tokio::spawn(listen(receiver, monitor, to_hub));
        Ok(Self { sender, inputs })
    }

    pub(super) fn submit(&self, job: Message) -> Result<(), SendError> {
        self.sender.try_send(job)
    }

    /// The next thing the core has to know of.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        match self.inputs.poll_recv(cx) {
            Poll::Ready(Some(input)) => Poll::Ready(input),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Passes on what the eMQP broker says and whether it is there, until nobody listens.
async fn listen(mut receiver: DealerReceiver, mut monitor: Monitor, to_hub: mpsc::Sender<Input>) {
    loop {
        let input = tokio::select! {
            message = receiver.recv() => message.ok().map(Input::FromBridge),
            event = monitor.recv() => match event {
                Some(event) => match link(&event) {
                    Some(link) => Some(Input::Bridge(link)),
                    None => continue,
                },
                None => None,
            },
            () = to_hub.closed() => None,
        };
        let Some(input) = input else { return };
        if to_hub.send(input).await.is_err() {
            return;
        }
    }
}

fn link(event: &MonitorEvent) -> Option<BridgeLink> {
    match event {
        MonitorEvent::HandshakeSucceeded { endpoint, .. } => {
            tracing::info!(%endpoint, "eMQP broker connected");
            Some(BridgeLink::Up)
        }
        MonitorEvent::Disconnected { endpoint, reason, .. } => {
            tracing::warn!(%endpoint, %reason, "eMQP broker lost");
            Some(BridgeLink::Down)
        }
        _ => None,
    }
}
