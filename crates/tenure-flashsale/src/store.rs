//! Where the stock and the receipts are.

mod mysql;
mod postgres;
mod redis;
mod sql;
pub(crate) mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use tenure::{EngineUrl, fence::Stamp};

use crate::{
    trouble::{Result, Trouble},
    wire::Answer,
};

/// What a shop needs of its store. Each call is one step: all of it happens, or nothing.
#[async_trait]
pub(crate) trait Store: std::fmt::Debug + Send + Sync {
    /// Puts so much on the shelf, with no receipts yet.
    async fn open(&self, stock: i64) -> Result<()>;
    /// What is on the shelf, and whether this buyer has a receipt.
    async fn look(&self, buyer: Option<u32>) -> Result<Shelf>;
    /// Writes what the caller thinks is left, and a receipt.
    async fn put(&self, left: i64, receipt: &Receipt) -> Result<()>;
    /// The same, if nobody wrote since the version was read.
    async fn put_if(&self, version: i64, left: i64, receipt: &Receipt) -> Result<bool>;
    /// Takes one if there is one and the buyer has none, and writes a receipt.
    async fn take(&self, receipt: &Receipt) -> Result<Answer>;
    /// Writes a receipt for what was taken elsewhere.
    async fn append(&self, receipt: &Receipt) -> Result<()>;
    /// Claims a resource of the shop for the holder of a lock, then looks. Gives the number of its last write.
    async fn claim(&self, resource: &str, stamp: Stamp, buyer: u32) -> Result<(u64, Shelf)>;
    /// The `n`th write of whoever has claimed; refused if it was overtaken.
    async fn write(
        &self,
        resource: &str,
        stamp: Stamp,
        n: u64,
        change: Change,
        receipt: &Receipt,
    ) -> Result<Answer>;
    async fn price(&self) -> Result<i64>;
    async fn tax(&self) -> Result<i64>;
    async fn set_price(&self, price: i64) -> Result<()>;
    async fn set_tax(&self, tax: i64) -> Result<()>;
    /// All receipts: what was really sold.
    async fn ledger(&self) -> Result<Vec<Receipt>>;
    /// Removes what this sale left.
    async fn clear(&self) -> Result<()>;
}

/// What is to be seen of the stock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shelf {
    pub(crate) left: i64,
    pub(crate) version: i64,
    pub(crate) bought: bool,
}

impl Shelf {
    /// The answer, if there is nothing to sell to this buyer.
    pub(crate) fn answer(&self) -> Option<Answer> {
        match self {
            Self { bought: true, .. } => Some(Answer::AlreadyBought),
            Self { left: ..=0, .. } => Some(Answer::SoldOut),
            _ => None,
        }
    }
}

/// What a holder of a lock does to the stock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Writes what it thinks is left.
    Put(i64),
    /// Takes one, if there is one.
    Take,
}

/// What a buyer who has paid goes home with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) buyer: u32,
    pub(crate) host: u32,
    pub(crate) price: i64,
    pub(crate) tax: i64,
}

impl Receipt {
    /// The first price, and the tax that belongs to it. Both rise together.
    pub(crate) const PRICE: i64 = 500;
    pub(crate) const TAX: i64 = 95;

    /// Whether price and tax were never valid together.
    pub(crate) fn is_torn(&self) -> bool {
        self.price - self.tax != Self::PRICE - Self::TAX && (self.price, self.tax) != (0, 0)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split(' ').map(str::parse::<i64>);
        let mut next = || match parts.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(Trouble::Internal(format!("`{}` is no receipt", text.escape_debug()))),
        };
        let (buyer, host) = (u32::try_from(next()?), u32::try_from(next()?));
        match (buyer, host) {
            (Ok(buyer), Ok(host)) => Ok(Self { buyer, host, price: next()?, tax: next()? }),
            _ => Err(Trouble::Internal("a receipt names no buyer".into())),
        }
    }
}

impl std::fmt::Display for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.buyer, self.host, self.price, self.tax)
    }
}

/// Opens the store at this URL for one sale.
pub(crate) async fn connect(text: &str, sale: &str) -> Result<Arc<dyn Store>> {
    let url: EngineUrl = text.parse()?;
    url.no_more_options(&[])?;
    match url.scheme() {
        "sqlite" => Ok(Arc::new(sqlite::connect(url.path(), sale)?)),
        "mysql" | "mariadb" => Ok(Arc::new(mysql::connect(&url, sale).await?)),
        "postgres" | "postgresql" => Ok(Arc::new(postgres::connect(&url, sale).await?)),
        "redis" => Ok(Arc::new(redis::connect(text, sale).await?)),
        other => Err(Trouble::Usage(format!(
            "no store is called `{other}:`; there are sqlite:/path, mysql:, postgres: and redis:"
        ))),
    }
}

/// How many connections a host has to a database: with its locks beside, ten hosts must fit into the usual hundred.
const CONNECTIONS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_read_back_and_torn_ones_are_seen() {
        let receipt = Receipt { buyer: 7, host: 2, price: 503, tax: 98 };
        assert_eq!(Receipt::parse(&receipt.to_string()).unwrap(), receipt);
        assert!(!receipt.is_torn());
        assert!(Receipt { tax: 97, ..receipt }.is_torn());
        assert!(!Receipt { price: 0, tax: 0, ..receipt }.is_torn(), "lanes without prices");
        for wrong in ["", "1 2 3", "1 2 3 x", "-1 2 3 4"] {
            assert!(Receipt::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shelf_answers_for_itself() {
        let shelf = Shelf { left: 1, version: 3, bought: false };
        assert_eq!(shelf.answer(), None);
        assert_eq!(Shelf { left: -2, ..shelf }.answer(), Some(Answer::SoldOut));
        assert_eq!(Shelf { bought: true, left: 0, ..shelf }.answer(), Some(Answer::AlreadyBought));
    }
}
