//! Decides whether a bundle may answer on a base: on the base that it was made for, or on a later
//! version with all types and relations that the bundle names.

use std::collections::BTreeSet;

use crate::bundle::{Bundle, BundleError};
use agent_index::IndexedBase;
use agent_tools::mentions::named_relations;

/// How a base relates to the base that a bundle was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The base is the same.
    Same,
    /// The base has the same name but other data, and still has all types and relations that the
    /// bundle names.
    Updated,
}

impl Bundle {
    /// Compares a base with the base that the bundle was made for.
    ///
    /// # Errors
    /// [`BundleError::OtherBase`] for any other base.
    pub fn fit(&self, base: &IndexedBase) -> Result<Fit, BundleError> {
        match self.check_base(base) {
            Ok(()) => Ok(Fit::Same),
            Err(_) if self.dataset.name == base.name() && self.knows_only(base) => Ok(Fit::Updated),
            Err(error) => Err(error),
        }
    }

    /// Returns the warning for [`Fit::Updated`].
    pub fn updated(&self) -> String {
        let name = &self.dataset.name;
        format!(
            "{name} was updated since the bundle was made; `agent verify BUNDLE --drift \
             --accept-drift` measures the bundle on the updated base and, if it still fits, \
             updates the bundle"
        )
    }

    /// Returns the names of the relations that the bundle's programs use.
    pub fn relations(&self) -> BTreeSet<String> {
        let programs = self.categories.iter().map(|category| category.program.source());
        programs.flat_map(named_relations).collect()
    }

    /// Whether a base has all types in the routers' features and all relations in the programs.
    fn knows_only(&self, base: &IndexedBase) -> bool {
        let type_of = |feature: &str| {
            let name = feature.strip_prefix("describes ").or(feature.strip_prefix("finds "));
            name.map(str::to_owned)
        };
        let routers = self.members().into_iter().map(|member| member.router);
        let mut types = routers.flat_map(|router| router.weights.into_keys());
        types.all(|of| type_of(&of).is_none_or(|name| base.kb.type_id(&name).is_some()))
            && self.relations().iter().all(|name| base.kb.relation_id(name).is_some())
    }
}
