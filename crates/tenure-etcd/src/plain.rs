//! What stands in for TLS where it is not compiled in: nothing that could ever be made.

use tenure_core::{Address, Error, Op, Result, TlsFiles};
use tokio::net::TcpStream;

use crate::{ENGINE, link::Wire};

#[derive(Clone, Debug)]
pub(crate) enum Trust {}

impl Trust {
    pub(crate) async fn load(_: &TlsFiles) -> Result<Self> {
        let message = "TLS is not compiled in; add the feature `tls` to the dependency on tenure";
        Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE))
    }

    pub(crate) async fn wrap(&self, _: TcpStream, _: &Address) -> std::io::Result<Box<dyn Wire>> {
        match *self {}
    }
}
