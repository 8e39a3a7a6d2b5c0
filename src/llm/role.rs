//! Roles: names and default settings of the parts of the program that ask a model. Each part
//! declares its own [`RoleSpec`].

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

/// Name of a part of the program that asks a model. Costs are summed by role; roles are ordered as
/// text. Replies stored under a name that is no longer in use can still be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Role(Cow<'static, str>);

impl Role {
    /// Creates the role of a name.
    pub const fn new(name: &'static str) -> Role {
        Role(Cow::Borrowed(name))
    }

    /// Returns the name of the role in settings and tables.
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

/// Declaration of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleSpec {
    /// Unique name.
    pub name: &'static str,
    /// Short description.
    pub summary: &'static str,
    /// Default sampling temperature; `None` leaves it to the service.
    pub temperature: Option<f64>,
    /// Default maximum number of tokens of a reply, hidden reasoning included.
    pub max_tokens: u32,
}

impl RoleSpec {
    /// Returns the declared role.
    pub const fn role(&self) -> Role {
        Role::new(self.name)
    }
}
