//! What every socket type has in common: its endpoints, its monitor, its end.

/// The methods of a socket that only hand on to its [`Handle`](super::handle::Handle), found in the field named.
/// `connect` is not among them: each type has something of its own to say there.
macro_rules! connections {
    ($socket:ident, $($handle:ident).+) => {
        impl $socket {
            /// Listens on an endpoint; gives it back with its actual port.
            ///
            /// # Errors
            /// The endpoint cannot be listened on, or the system refuses.
            pub async fn bind(&self, endpoint: &$crate::Endpoint) -> Result<$crate::Endpoint, $crate::BindError> {
                self.$($handle).+.bind(endpoint).await
            }

            /// Stops listening on an endpoint, named as [`bind`](Self::bind) gave it back, and waits until the port is
            /// free. Its connections stay. Whether there was such a listener.
            pub async fn unbind(&self, endpoint: &$crate::Endpoint) -> bool {
                self.$($handle).+.unbind(endpoint).await
            }

            /// Ends the connection to an endpoint given to [`connect`](Self::connect); what is queued for it is still
            /// sent, within the linger time. Whether there was one.
            pub fn disconnect(&self, endpoint: &$crate::Endpoint) -> bool {
                self.$($handle).+.disconnect(endpoint)
            }

            /// What happens to the connections from now on.
            pub fn monitor(&self) -> $crate::monitor::Monitor {
                self.$($handle).+.monitor()
            }

            /// Closes the socket, for all its handles: what is queued is sent, at most for as long as linger allows;
            /// waits until that is done.
            ///
            /// Dropping the socket does the same in the background.
            pub async fn close(self) {
                self.$($handle).+.close().await;
            }
        }
    };
}

/// `Clone` and [`Sink`](futures_sink::Sink) for a type with a `handle` and an `outgoing`, which sends with `$try_send`.
macro_rules! sink {
    ($sender:ident, $try_send:path) => {
        impl Clone for $sender {
            /// Another handle. What is under way through this one as a [`Sink`](futures_sink::Sink) stays with it.
            fn clone(&self) -> Self {
                Self { handle: self.handle.clone(), outgoing: $crate::socket::outgoing::Outgoing::default() }
            }
        }

        impl futures_sink::Sink<$crate::Message> for $sender {
            type Error = $crate::SendError;

            fn poll_ready(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), $crate::SendError>> {
                self.poll_flush(cx)
            }

            fn start_send(self: std::pin::Pin<&mut Self>, message: $crate::Message) -> Result<(), $crate::SendError> {
                self.get_mut().outgoing.start(message);
                Ok(())
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), $crate::SendError>> {
                let Self { handle, outgoing } = self.get_mut();
                outgoing.poll_flush(cx, &handle.0.room, |message| $try_send(handle, message))
            }

            /// Waits until everything is queued; the socket itself stays open.
            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), $crate::SendError>> {
                self.poll_flush(cx)
            }
        }
    };
}

pub(super) use {connections, sink};
