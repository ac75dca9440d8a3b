//! The shop in SQL: the same tables and statements for SQLite, MySQL and PostgreSQL.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tenure::fence::{Ran, Stamp, Value};
use tokio::sync::{Mutex, MutexGuard};

use super::{Change, Receipt, Shelf, Store};
use crate::{
    trouble::{Result, Trouble},
    wire::Answer,
};

/// A connection to a database, with what the three say differently.
#[async_trait]
pub(super) trait Link: std::fmt::Debug + Send + 'static {
    /// Runs a statement with `?` for its values. Of rows, the first column, a text.
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran>;
    /// Makes the tables, if they are not there.
    async fn create(&mut self, tables: &[&str]) -> Result<()>;
    async fn begin(&mut self) -> Result<()>;
    async fn commit(&mut self) -> Result<()>;
    async fn roll_back(&mut self) -> Result<()>;
    /// Claims a fenced resource, inside a transaction.
    async fn claim(&mut self, resource: &str, stamp: Stamp) -> Result<u64>;
    /// Counts a write to a fenced resource, inside a transaction.
    async fn count_write(&mut self, resource: &str, stamp: Stamp, n: u64) -> Result<()>;
    /// Forgets what was claimed at the resources whose names start so.
    async fn forget(&mut self, resources: &str) -> Result<()>;

    /// Ends a transaction by what came of it.
    async fn end<T: Send>(&mut self, done: Result<T>) -> Result<T>
    where
        Self: Sized,
    {
        match done {
            Ok(value) => self.commit().await.map(|()| value),
            Err(trouble) => {
                let _ = self.roll_back().await;
                Err(trouble)
            }
        }
    }
}

/// The tables. A receipt has a nonce, so that one buyer can have two: that is what the sale is to show.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS tenure_sale_stock (sale VARCHAR(64) PRIMARY KEY, stock BIGINT NOT NULL, \
     version BIGINT NOT NULL, price BIGINT NOT NULL, tax BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tenure_sale_receipts (sale VARCHAR(64) NOT NULL, buyer BIGINT NOT NULL, \
     nonce VARCHAR(32) NOT NULL, host BIGINT NOT NULL, price BIGINT NOT NULL, tax BIGINT NOT NULL, \
     PRIMARY KEY (sale, buyer, nonce))",
    "CREATE TABLE IF NOT EXISTS tenure_sale_buyers (sale VARCHAR(64) NOT NULL, buyer BIGINT NOT NULL, \
     PRIMARY KEY (sale, buyer))",
];

/// The shop in a SQL database.
#[derive(Debug)]
pub(crate) struct SqlStore<L> {
    links: Vec<Mutex<L>>,
    next: AtomicUsize,
    sale: String,
}

impl<L: Link> SqlStore<L> {
    pub(super) fn new(links: Vec<L>, sale: &str) -> Self {
        let links = links.into_iter().map(Mutex::new).collect();
        Self { links, next: AtomicUsize::new(0), sale: sale.to_owned() }
    }

    /// A connection that is free, or the next in turn.
    async fn link(&self) -> MutexGuard<'_, L> {
        match self.links.iter().find_map(|link| link.try_lock().ok()) {
            Some(link) => link,
            None => self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()].lock().await,
        }
    }

    fn sale(&self) -> Value<'_> {
        Value::Text(&self.sale)
    }

    fn resource(&self, name: &str) -> String {
        format!("{}/{name}", self.sale)
    }

    async fn look_on(&self, link: &mut L, buyer: Option<u32>) -> Result<Shelf> {
        let shelf = "SELECT CONCAT(stock, ' ', version, ' ', \
                     (SELECT COUNT(*) FROM tenure_sale_receipts r WHERE r.sale = s.sale AND r.buyer = ?)) \
                     FROM tenure_sale_stock s WHERE s.sale = ?";
        let window = "SELECT CONCAT(stock, ' ', version, ' 0') FROM tenure_sale_stock WHERE sale = ?";
        let ran = match buyer {
            Some(buyer) => link.run(shelf, &[Value::Int(buyer.into()), self.sale()]).await?,
            None => link.run(window, &[self.sale()]).await?,
        };
        let text = ran.texts.first().ok_or_else(gone)?;
        let mut numbers = text.split(' ').filter_map(|number| number.parse::<i64>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(left), Some(version), Some(receipts)) => Ok(Shelf { left, version, bought: receipts > 0 }),
            _ => Err(Trouble::Internal("the shelf cannot be read".into())),
        }
    }

    async fn put_on(&self, link: &mut L, left: i64, receipt: &Receipt) -> Result<()> {
        let put = "UPDATE tenure_sale_stock SET stock = ?, version = version + 1 WHERE sale = ?";
        link.run(put, &[Value::Int(left), self.sale()]).await?;
        self.append_on(link, receipt).await
    }

    /// Takes one if there is one.
    async fn take_on(&self, link: &mut L, receipt: &Receipt) -> Result<Answer> {
        let take = "UPDATE tenure_sale_stock SET stock = stock - 1, version = version + 1 WHERE sale = ? AND stock >= 1";
        if link.run(take, &[self.sale()]).await?.affected == 0 {
            return Ok(Answer::SoldOut);
        }
        self.append_on(link, receipt).await?;
        Ok(Answer::Ordered)
    }

    async fn append_on(&self, link: &mut L, receipt: &Receipt) -> Result<()> {
        let append = "INSERT INTO tenure_sale_receipts (sale, buyer, nonce, host, price, tax) VALUES (?, ?, ?, ?, ?, ?)";
        let nonce = format!("{:016x}", fastrand::u64(..));
        let values = [
            self.sale(),
            Value::Int(receipt.buyer.into()),
            Value::Text(&nonce),
            Value::Int(receipt.host.into()),
            Value::Int(receipt.price),
            Value::Int(receipt.tax),
        ];
        link.run(append, &values).await.map(drop)
    }

    async fn one_number(&self, sql: &str) -> Result<i64> {
        let ran = self.link().await.run(sql, &[self.sale()]).await?;
        ran.texts.first().and_then(|text| text.parse().ok()).ok_or_else(gone)
    }

    async fn set(&self, sql: &str, number: i64) -> Result<()> {
        self.link().await.run(sql, &[Value::Int(number), self.sale()]).await.map(drop)
    }
}

fn gone() -> Trouble {
    Trouble::Unavailable("the sale is not in the store any more".into())
}

#[async_trait]
impl<L: Link> Store for SqlStore<L> {
    async fn open(&self, stock: i64) -> Result<()> {
        let mut link = self.link().await;
        link.create(&TABLES).await?;
        let open = "INSERT INTO tenure_sale_stock (sale, stock, version, price, tax) VALUES (?, ?, 0, ?, ?)";
        let values = [self.sale(), Value::Int(stock), Value::Int(Receipt::PRICE), Value::Int(Receipt::TAX)];
        link.run(open, &values).await.map(drop)
    }

    async fn look(&self, buyer: Option<u32>) -> Result<Shelf> {
        let mut link = self.link().await;
        self.look_on(&mut link, buyer).await
    }

    async fn put(&self, left: i64, receipt: &Receipt) -> Result<()> {
        let mut link = self.link().await;
        link.begin().await?;
        let done = self.put_on(&mut link, left, receipt).await;
        link.end(done).await
    }

    async fn put_if(&self, version: i64, left: i64, receipt: &Receipt) -> Result<bool> {
        let mut link = self.link().await;
        link.begin().await?;
        let put =
            "UPDATE tenure_sale_stock SET stock = ?, version = version + 1 WHERE sale = ? AND version = ?";
        let done = match link.run(put, &[Value::Int(left), self.sale(), Value::Int(version)]).await {
            Ok(ran) if ran.affected == 0 => Ok(false),
            Ok(_) => self.append_on(&mut link, receipt).await.map(|()| true),
            Err(trouble) => Err(trouble),
        };
        link.end(done).await
    }

    async fn take(&self, receipt: &Receipt) -> Result<Answer> {
        let mut link = self.link().await;
        link.begin().await?;
        let buyer = Value::Int(receipt.buyer.into());
        let once = "INSERT INTO tenure_sale_buyers (sale, buyer) SELECT ?, ? WHERE NOT EXISTS \
                    (SELECT 1 FROM tenure_sale_buyers b WHERE b.sale = ? AND b.buyer = ?)";
        let done = match link.run(once, &[self.sale(), buyer, self.sale(), buyer]).await {
            Ok(ran) if ran.affected == 0 => Ok(Answer::AlreadyBought),
            Ok(_) => self.take_on(&mut link, receipt).await,
            Err(trouble) => Err(trouble),
        };
        if matches!(done, Ok(Answer::SoldOut)) {
            // Who got nothing has not bought.
            link.roll_back().await?;
            return done;
        }
        link.end(done).await
    }

    async fn append(&self, receipt: &Receipt) -> Result<()> {
        let mut link = self.link().await;
        link.begin().await?;
        let done = self.take_on(&mut link, receipt).await;
        link.end(done).await.map(drop)
    }

    async fn claim(&self, resource: &str, stamp: Stamp, buyer: u32) -> Result<(u64, Shelf)> {
        let mut link = self.link().await;
        link.begin().await?;
        let done = match link.claim(&self.resource(resource), stamp).await {
            Ok(n) => self.look_on(&mut link, Some(buyer)).await.map(|shelf| (n, shelf)),
            Err(trouble) => Err(trouble),
        };
        link.end(done).await
    }

    async fn write(
        &self,
        resource: &str,
        stamp: Stamp,
        n: u64,
        change: Change,
        receipt: &Receipt,
    ) -> Result<Answer> {
        let mut link = self.link().await;
        link.begin().await?;
        let done = match (link.count_write(&self.resource(resource), stamp, n).await, change) {
            (Ok(()), Change::Put(left)) => {
                self.put_on(&mut link, left, receipt).await.map(|()| Answer::Ordered)
            }
            (Ok(()), Change::Take) => self.take_on(&mut link, receipt).await,
            (Err(trouble), _) => Err(trouble),
        };
        link.end(done).await
    }

    async fn price(&self) -> Result<i64> {
        self.one_number("SELECT CONCAT(price, '') FROM tenure_sale_stock WHERE sale = ?").await
    }

    async fn tax(&self) -> Result<i64> {
        self.one_number("SELECT CONCAT(tax, '') FROM tenure_sale_stock WHERE sale = ?").await
    }

    async fn set_price(&self, price: i64) -> Result<()> {
        self.set("UPDATE tenure_sale_stock SET price = ? WHERE sale = ?", price).await
    }

    async fn set_tax(&self, tax: i64) -> Result<()> {
        self.set("UPDATE tenure_sale_stock SET tax = ? WHERE sale = ?", tax).await
    }

    async fn ledger(&self) -> Result<Vec<Receipt>> {
        let all =
            "SELECT CONCAT(buyer, ' ', host, ' ', price, ' ', tax) FROM tenure_sale_receipts WHERE sale = ?";
        let ran = self.link().await.run(all, &[self.sale()]).await?;
        ran.texts.iter().map(|text| Receipt::parse(text)).collect()
    }

    async fn clear(&self) -> Result<()> {
        let mut link = self.link().await;
        for table in ["tenure_sale_stock", "tenure_sale_receipts", "tenure_sale_buyers"] {
            link.run(&format!("DELETE FROM {table} WHERE sale = ?"), &[self.sale()]).await?;
        }
        link.forget(&self.resource("")).await
    }
}
