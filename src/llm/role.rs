//! Roles: each part of the program that asks a language model declares its own [`RoleSpec`], with a
//! name and default settings.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// Name of a part of the program that asks a language model, such as `actor`. Costs are summed by
/// role; roles are ordered by name. Replies stored under a name that is no longer in use can still
/// be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Role(Cow<'static, str>);

impl Role {
    /// Creates the role with this name.
    pub const fn new(name: &'static str) -> Role {
        Role(Cow::Borrowed(name))
    }

    /// Returns the name of the role, as in settings and tables.
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

/// Declaration of a role: its name and default settings.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// Unique name of the role.
    pub name: &'static str,
    /// Short description of what the role does.
    pub summary: &'static str,
    /// Default sampling temperature; `None`: the service's default.
    pub temperature: Option<f64>,
    /// Default maximum number of tokens of a reply, including hidden reasoning.
    pub max_tokens: u32,
}

impl RoleSpec {
    /// Returns the role that this declaration describes.
    pub const fn role(&self) -> Role {
        Role::new(self.name)
    }
}
