//! What listeners and dialers need of a transport: a listener to accept from, a stream to drive a link over.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

#[cfg(unix)]
use super::ipc;
use super::tcp;
use crate::socket::Options;
use crate::{BindError, Endpoint, PeerAddress};

/// A bound endpoint.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Ipc(ipc::Listener),
}

/// An open connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Ipc(tokio::net::UnixStream),
}

/// Binds an endpoint of a transport with streams; gives its actual address too.
pub(crate) async fn bind(endpoint: &Endpoint, options: &Options) -> Result<(Listener, Endpoint), BindError> {
    match endpoint {
        Endpoint::Tcp(tcp) => match tcp::bind(tcp, options).await {
            Ok((listener, address)) => Ok((Listener::Tcp(listener), address.into())),
            Err(source) => Err(BindError::Io { endpoint: endpoint.clone(), source }),
        },
        #[cfg(unix)]
        Endpoint::Ipc(ipc) => {
            let (listener, endpoint) = ipc::bind(ipc, options).await?;
            Ok((Listener::Ipc(listener), endpoint.into()))
        }
        _ => Err(BindError::Io { endpoint: endpoint.clone(), source: io::ErrorKind::Unsupported.into() }),
    }
}

/// Connects once to an endpoint of a transport with streams.
pub(crate) async fn connect(endpoint: &Endpoint, options: &Options) -> io::Result<(Stream, PeerAddress)> {
    match endpoint {
        Endpoint::Tcp(tcp) => {
            let (stream, peer) = tcp::connect(tcp, &options.network).await?;
            Ok((Stream::Tcp(stream), peer.into()))
        }
        #[cfg(unix)]
        Endpoint::Ipc(ipc) => {
            let stream = ipc::connect(ipc, &options.network).await?;
            let peer = ipc::peer(&stream);
            Ok((Stream::Ipc(stream), peer))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl Listener {
    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, PeerAddress)> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), peer.into())),
            #[cfg(unix)]
            Self::Ipc(listener) => listener.accept().await.map(|stream| {
                let peer = ipc::peer(&stream);
                (Stream::Ipc(stream), peer)
            }),
        }
    }
}

impl Stream {
    /// Sets what is set on an accepted connection. One that is gone already will tell at its first read.
    pub(crate) fn set_up(&self, options: &Options) {
        match self {
            Self::Tcp(stream) => tcp::set_up(stream, &options.network),
            #[cfg(unix)]
            Self::Ipc(stream) => ipc::set_up(stream, &options.network),
        }
    }
}

/// Calls a method of whichever stream it is.
macro_rules! on_stream {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Stream::Ipc(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, poll_write(cx, bytes))
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_shutdown(cx))
    }
}
