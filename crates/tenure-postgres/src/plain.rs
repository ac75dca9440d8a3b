//! What stands in for TLS where it is not compiled in: nothing that could ever be made.

use std::path::Path;

use tenure_core::{Address, Error, Op, Result};
use tokio_postgres::NoTls;

use crate::ENGINE;

#[derive(Clone, Debug)]
pub(crate) enum Trust {}

impl Trust {
    pub(crate) async fn load(_ca: Option<&Path>) -> Result<Self> {
        let message = "TLS is not compiled in; add the feature `tls` to the dependency on tenure";
        Err(Error::unsupported(Op::Connect, message).with_engine(ENGINE))
    }

    pub(crate) fn connector(&self, _address: &Address) -> Result<NoTls> {
        match *self {}
    }
}
