//! Which part of the program asks a model: the name it is known by in settings, tables, journals
//! and cassettes, and how it asks unless users set otherwise. Must not know which parts there are:
//! each that asks declares its [`RoleSpec`] beside its own code.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// The name of a part of the program that asks. Costs are summed by it; ordered as text. What was
/// kept under a name that nobody asks by any more can still be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Role(Cow<'static, str>);

impl Role {
    /// The role of that name.
    pub const fn new(name: &'static str) -> Role {
        Role(Cow::Borrowed(name))
    }

    /// Its name in settings and tables.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl From<String> for Role {
    fn from(name: String) -> Role {
        Role(Cow::Owned(name))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a part of the program that asks declares.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// Its name; no two that ask share one.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Sampling temperature unless set otherwise; none leaves it to the service.
    pub temperature: Option<f64>,
    /// Tokens of a reply at most unless set otherwise; hidden reasoning counts.
    pub max_tokens: u32,
}

impl RoleSpec {
    /// The role that is declared.
    pub const fn role(&self) -> Role {
        Role::new(self.name)
    }
}
