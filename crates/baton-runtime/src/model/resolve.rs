//! Resolves the names of hosts. The usual way ends this process where no thread can be started; this
//! one says so.

use std::net::{SocketAddr, ToSocketAddrs};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Asks the system, in a thread of its own for each name.
#[derive(Debug)]
pub(super) struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let started = std::thread::Builder::new().spawn(move || {
            // The port is that of the URL; this one stands for none.
            let found = (name.as_str(), 0).to_socket_addrs();
            let _ = sender.send(found.map(Iterator::collect::<Vec<SocketAddr>>));
        });
        Box::pin(async move {
            started.map_err(|error| format!("cannot start a thread: {error}"))?;
            let found = receiver.await??;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
