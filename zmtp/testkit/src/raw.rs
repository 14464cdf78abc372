//! Peers with hand-made bytes over real sockets.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use zmtp::Endpoint;

use crate::{command, greeting, ready, soon};

/// A peer with hand-made bytes, over TCP as a rule.
pub struct Raw<S = TcpStream>(pub S);

#[cfg(unix)]
impl Raw<tokio::net::UnixStream> {
    /// Connects to a Unix domain socket.
    pub async fn ipc(path: &std::path::Path) -> Self {
        Self(tokio::net::UnixStream::connect(path).await.unwrap())
    }
}

impl Raw {
    /// Connects, and says nothing.
    pub async fn connect(endpoint: &Endpoint) -> Self {
        let stream = TcpStream::connect((endpoint.host().as_str(), endpoint.port())).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Connects and completes the handshake.
    pub async fn shaken(endpoint: &Endpoint, socket_type: &str, identity: &[u8]) -> Self {
        let mut raw = Self::connect(endpoint).await;
        raw.shake(socket_type, identity).await;
        raw
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    /// Completes the handshake under NULL.
    pub async fn shake(&mut self, socket_type: &str, identity: &[u8]) {
        self.send(&[greeting(), ready(socket_type, identity)].concat()).await;
        self.read(64).await;
        let (flags, _) = self.read_frame().await;
        assert_eq!(flags, 4, "READY");
    }

    /// Sends what the other side takes: it may have closed in the middle of it.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = soon("room in the socket", self.0.write_all(bytes)).await;
    }

    /// So many bytes.
    pub async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        soon("bytes", self.0.read_exact(&mut bytes)).await.unwrap();
        bytes
    }

    /// Flags and body.
    pub async fn read_frame(&mut self) -> (u8, Vec<u8>) {
        let start = self.read(2).await;
        let len = if start[0] & 2 == 0 {
            usize::from(start[1])
        } else {
            let rest = self.read(7).await;
            let size: Vec<u8> = [&start[1..], &rest[..]].concat();
            u64::from_be_bytes(size.try_into().unwrap()) as usize
        };
        (start[0], self.read(len).await)
    }

    /// Reads until the other side has closed.
    pub async fn closed(&mut self) {
        let mut bytes = [0; 4096];
        soon("the end of the connection", async { while matches!(self.0.read(&mut bytes).await, Ok(1..)) {} }).await;
    }
}

/// A hand-made peer that speaks 3.`minor`.
pub async fn raw_peer(mut raw: Raw, socket_type: &str, minor: u8) -> Raw {
    let mut hello = greeting();
    hello[11] = minor;
    raw.send(&[hello, ready(socket_type, b"")].concat()).await;
    raw.read(64).await;
    assert_eq!(raw.read_frame().await.0, 4, "READY");
    raw
}

/// As [`raw_peer`], to an endpoint.
pub async fn raw_to(endpoint: &Endpoint, socket_type: &str, minor: u8) -> Raw {
    raw_peer(Raw::connect(endpoint).await, socket_type, minor).await
}

/// Waits until everything sent so far has been taken in.
pub async fn settled(raw: &mut Raw) {
    raw.send(&command("PING", b"\0\0")).await;
    assert_eq!(raw.read_frame().await, (4, b"\x04PONG".to_vec()));
}
