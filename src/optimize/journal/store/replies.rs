//! Reads and writes the database table with the replies of language models.

use rusqlite::{Row, params};

use crate::journal::{
    Result,
    store::{Store, digest},
};

/// Query for rows of replies, with the columns in the order that [`Store::checked_reply`] expects.
const REPLY: &str = "SELECT key, role, request, reply, paid, digest FROM reply";

/// A reply in the form in which the database stores it.
#[derive(Debug)]
pub(in crate::journal) struct StoredReply {
    pub(in crate::journal) key: String,
    role: String,
    pub(in crate::journal) request: String,
    pub(in crate::journal) reply: String,
    pub(in crate::journal) paid: bool,
}

impl Store {
    /// Returns the reply with this key, after checking it against its digest; `None` if there is
    /// none.
    pub(in crate::journal) fn reply(&self, key: &str) -> Result<Option<StoredReply>> {
        let sql = format!("{REPLY} WHERE key = ?1");
        Ok(self.rows(&sql, [key], |row| self.checked_reply(row))?.pop())
    }

    /// Whether there is a reply with this key. Does not check the reply.
    pub(in crate::journal) fn has_reply(&self, key: &str) -> Result<bool> {
        self.prepare("SELECT 1 FROM reply WHERE key = ?1")?
            .exists([key])
            .map_err(self.failed("read"))
    }

    /// Calls `visit` with every reply, in order of keys, after checking the reply against its
    /// digest.
    pub(in crate::journal) fn each_reply(
        &self,
        mut visit: impl FnMut(StoredReply) -> Result<()>,
    ) -> Result<()> {
        self.each_row(&format!("{REPLY} ORDER BY key"), [], |row| visit(self.checked_reply(row)?))
    }

    /// Adds a reply, which is on the disk when this returns `Ok`. After an error, either the whole
    /// reply or nothing is stored.
    pub(in crate::journal) fn append_reply(
        &mut self,
        key: &str,
        role: &str,
        request: &str,
        reply: &str,
        paid: bool,
    ) -> Result<()> {
        let digest = reply_digest(&self.run, [key, role, request, reply], paid);
        self.write(|transaction| {
            let sql = "INSERT INTO reply VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
            let values = params![key, role, request, reply, paid, digest];
            transaction.prepare_cached(sql)?.execute(values).map(drop)
        })
    }

    /// Reads a reply from a row of the query [`REPLY`] and checks it against its digest.
    fn checked_reply(&self, row: &Row<'_>) -> Result<StoredReply> {
        let stored = StoredReply {
            key: self.get(row, 0)?,
            role: self.get(row, 1)?,
            request: self.get(row, 2)?,
            reply: self.get(row, 3)?,
            paid: self.get(row, 4)?,
        };
        let texts = [&*stored.key, &stored.role, &stored.request, &stored.reply];
        if reply_digest(&self.run, texts, stored.paid) != self.get::<[u8; 32]>(row, 5)? {
            return Err(self.damaged(&format!("reply {:?} does not match its digest", stored.key)));
        }
        Ok(stored)
    }
}

/// Computes the digest of a reply from the digest of its run, its texts, and whether the run paid
/// for it.
fn reply_digest(run: &[u8; 32], texts: [&str; 4], paid: bool) -> [u8; 32] {
    digest(&[b"agent reply 1\n", run, &[u8::from(paid)]], &texts)
}
