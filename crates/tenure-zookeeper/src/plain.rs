//! What stands in for TLS where it is not compiled in: nothing that could ever be made.

use std::path::Path;

use tenure_core::{Address, Error, Op, Result};
use tokio::net::TcpStream;

use crate::{
    ENGINE,
    link::{Stream, Trouble},
};

#[derive(Clone, Debug)]
pub(crate) enum Trust {}

impl Trust {
    pub(crate) async fn load(_ca: Option<&Path>) -> Result<Self> {
        let message = "TLS is not compiled in; add the feature `tls` to the dependency on tenure";
        Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE))
    }

    pub(crate) async fn wrap(
        &self,
        _address: &Address,
        _stream: TcpStream,
    ) -> std::result::Result<Box<dyn Stream>, Trouble> {
        match *self {}
    }
}
