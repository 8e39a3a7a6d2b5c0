//! Reads and writes the database table with the replies of language models.

use blake3::Hasher;
use rusqlite::{Row, TransactionBehavior, params};

use crate::journal::{
    Result,
    store::{Store, failed},
};

/// Query for rows of replies, with the columns in the order that [`StoredReply::read`] expects.
const REPLY: &str = "SELECT key, role, request, reply, paid, digest FROM reply";

/// A reply in the form in which the database stores it.
#[derive(Debug)]
pub(in crate::journal) struct StoredReply {
    pub(in crate::journal) key: String,
    role: String,
    pub(in crate::journal) request: String,
    pub(in crate::journal) reply: String,
    pub(in crate::journal) paid: bool,
    digest: [u8; 32],
}

impl StoredReply {
    /// Reads a reply from a row of the query [`REPLY`].
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            role: row.get(1)?,
            request: row.get(2)?,
            reply: row.get(3)?,
            paid: row.get(4)?,
            digest: row.get(5)?,
        })
    }
}

impl Store {
    /// Returns the reply with this key, after checking it against its digest; `None` if there is
    /// none.
    pub(in crate::journal) fn reply(&self, key: &str) -> Result<Option<StoredReply>> {
        let mut statement = self.prepare(&format!("{REPLY} WHERE key = ?1"))?;
        let mut rows = statement.query([key]).map_err(|error| self.failed("read", &error))?;
        match rows.next().map_err(|error| self.failed("read", &error))? {
            Some(row) => self.checked_reply(row).map(Some),
            None => Ok(None),
        }
    }

    /// Whether there is a reply with this key. Does not check the reply.
    pub(in crate::journal) fn has_reply(&self, key: &str) -> Result<bool> {
        self.prepare("SELECT 1 FROM reply WHERE key = ?1")?
            .exists([key])
            .map_err(|error| self.failed("read", &error))
    }

    /// Calls `visit` with every reply, in order of keys, after checking the reply against its
    /// digest.
    pub(in crate::journal) fn each_reply(
        &self,
        mut visit: impl FnMut(StoredReply) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.prepare(&format!("{REPLY} ORDER BY key"))?;
        let mut rows = statement.query([]).map_err(|error| self.failed("read", &error))?;
        while let Some(row) = rows.next().map_err(|error| self.failed("read", &error))? {
            visit(self.checked_reply(row)?)?;
        }
        Ok(())
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
        let mut written = || -> rusqlite::Result<()> {
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction
                .prepare_cached("INSERT INTO reply VALUES(?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![key, role, request, reply, paid, digest])?;
            transaction.commit()
        };
        written().map_err(|error| failed("write", &self.path, &error))
    }

    /// Reads a reply from a row of the query [`REPLY`] and checks it against its digest.
    fn checked_reply(&self, row: &Row<'_>) -> Result<StoredReply> {
        let stored = StoredReply::read(row).map_err(|error| self.failed("read", &error))?;
        let texts = [&*stored.key, &stored.role, &stored.request, &stored.reply];
        if reply_digest(&self.run, texts, stored.paid) != stored.digest {
            return Err(self.damaged(&format!("reply {:?} does not match its digest", stored.key)));
        }
        Ok(stored)
    }
}

/// Computes the digest of a reply from the digest of its run, its texts, and whether the run paid
/// for it.
fn reply_digest(run: &[u8; 32], texts: [&str; 4], paid: bool) -> [u8; 32] {
    let mut hasher = Hasher::new();
    hasher.update(b"agent reply 1\n");
    hasher.update(run);
    hasher.update(&[u8::from(paid)]);
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().into()
}
