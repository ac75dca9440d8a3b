//! TLS, always with a certificate that is checked.

use std::{
    fmt,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use rustls::{ClientConfig, pki_types::ServerName};
use tenure_core::{Address, Error, ErrorKind, Op, Result, TlsFiles};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use crate::ENGINE;

/// Whom to trust.
#[derive(Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the certificates of this authority, or of those that the machine trusts.
    pub(crate) async fn load(ca: Option<&Path>) -> Result<Self> {
        let files = TlsFiles { ca: ca.map(Path::to_owned), client: None };
        let read = tokio::task::spawn_blocking(move || files.client_config());
        let read = read.await.map_err(|_| invalid("the certificates cannot be read".into()))?;
        Ok(Self(Arc::new(read.map_err(|err| err.with_engine(ENGINE))?)))
    }

    /// What makes a connection to this server private.
    pub(crate) fn connector(&self, address: &Address) -> Result<Connector> {
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| invalid(format!("`{}` is no name for a certificate", address.host)))?;
        Ok(Connector { config: self.0.clone(), name })
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, Op::Connect, message).with_engine(ENGINE).not_applied()
}

/// Makes one connection private.
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connector {
    type Stream = Private<S>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, std::io::Result<Private<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        let connect = tokio_rustls::TlsConnector::from(self.config).connect(self.name, stream);
        connect.map(|stream| stream.map(Private)).boxed()
    }
}

/// A connection that nobody else reads.
pub(crate) struct Private<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Private<S> {
    /// A certificate that was checked says who is at the other end.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Private<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Private<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
