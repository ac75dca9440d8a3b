//! A table of the page: written, read again, and brought up to date by a run of some engines.

use std::fmt;

/// Rows of cells, the head first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&cell| cell.to_owned()).collect()])
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.0.push(row);
    }

    /// All tables of a text, in order.
    pub(super) fn read_all(text: &str) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        let mut within = false;
        for line in text.lines() {
            let row = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
            let Some(row) = row else {
                within = false;
                continue;
            };
            let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
            if !within {
                tables.push(Self::default());
                within = true;
            }
            let rule = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-'));
            if let (Some(table), false) = (tables.last_mut(), rule) {
                table.0.push(cells);
            }
        }
        tables
    }

    /// Its rows as columns.
    pub(super) fn turned(&self) -> Self {
        let width = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let column = |at: usize| self.0.iter().map(|row| row.get(at).cloned().unwrap_or_default()).collect();
        Self((0..width).map(column).collect())
    }

    /// Adds the rows of an older one whose first cell is not among these, if both have the same head; in the order of
    /// `names`.
    pub(super) fn beside(mut self, older: Option<&Self>, names: &[&str]) -> Self {
        let older = older.filter(|older| older.0.first() == self.0.first());
        for row in older.into_iter().flat_map(|older| older.0.iter().skip(1)) {
            if !self.0.iter().any(|known| known.first() == row.first()) {
                self.0.push(row.clone());
            }
        }
        let place =
            |row: &Vec<String>| names.iter().position(|name| row.first().is_some_and(|cell| cell == name));
        if let Some(rows) = self.0.get_mut(1..) {
            rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        }
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.0.iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if at == 0 {
                writeln!(f, "|{}", "---|".repeat(row.len()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 2]]) -> Table {
        let mut table = Table::new(&["engine", "grants"]);
        rows.iter().for_each(|row| table.push(row.map(str::to_owned).to_vec()));
        table
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (one, other) = (table(&[["etcd", "5"], ["file", "–"]]), table(&[["redis", ""]]));
        let text = format!("Before.\n\n{one}\nBetween.\n\n{other}After.\n");
        assert_eq!(Table::read_all(&text), [one.clone(), other]);
        assert_eq!(one.turned().turned(), one);
        assert!(one.to_string().starts_with("| engine | grants |\n|---|---|\n| etcd | 5 |\n"), "{one}");
    }

    #[test]
    fn a_run_of_some_leaves_the_others_as_they_were() {
        let older = table(&[["etcd", "5"], ["file", "7"]]);
        let fresh = table(&[["redis", "9"], ["etcd", "6"]]).beside(Some(&older), &["etcd", "redis", "file"]);
        assert_eq!(fresh, table(&[["etcd", "6"], ["redis", "9"], ["file", "7"]]));
        assert_eq!(table(&[["etcd", "6"]]).beside(None, &["etcd"]), table(&[["etcd", "6"]]));
        let mut other = Table::new(&["engine", "hits"]);
        other.push(vec!["file".into(), "7".into()]);
        assert_eq!(table(&[["etcd", "6"]]).beside(Some(&other), &["etcd"]), table(&[["etcd", "6"]]));
    }
}
