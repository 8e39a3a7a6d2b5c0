//! The table of roles: the parts of the software that ask a language model, such as the actor or
//! the comparator. Each role is declared next to its own code; a new role must be added here.

use crate::actor::{ACTOR_ROLE, CATEGORIES_ROLE, COMPARATOR_ROLE, LEXICON_ROLE};
use agent_ask::ASK_ROLE;
use agent_infer::{EXPAND_ROLE, REACT_ROLE, RERANK_ROLE, ROUTER_ROLE, rag::ANSWER_ROLE};
use agent_llm::{Role, RoleSpec};
use agent_synth::SYNTHESIZE_ROLE;
use agent_tools::TOOLS_ROLE;

/// All roles of language models, in the order in which they are displayed.
pub const ROLES: [RoleSpec; 12] = [
    ACTOR_ROLE,
    COMPARATOR_ROLE,
    CATEGORIES_ROLE,
    LEXICON_ROLE,
    ROUTER_ROLE,
    TOOLS_ROLE,
    REACT_ROLE,
    RERANK_ROLE,
    SYNTHESIZE_ROLE,
    ASK_ROLE,
    EXPAND_ROLE,
    ANSWER_ROLE,
];

/// Returns the position of a role in [`ROLES`]; unknown roles, as in older runs, come last.
pub fn position(role: &Role) -> usize {
    ROLES.iter().position(|spec| spec.name == role.name()).unwrap_or(ROLES.len())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use agent_llm::prompts::Prompts;

    #[test]
    fn every_role_has_a_name_of_its_own_and_every_prompt_a_role() {
        let names: BTreeSet<&str> = ROLES.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), ROLES.len());
        let prompts = Prompts::built_in().unwrap();
        for name in prompts.names() {
            let role = &prompts.describe(name).unwrap().role;
            assert!(names.contains(role.as_str()), "{name}: {role}");
        }
        assert_eq!(position(&ROLES[3].role()), 3);
        assert_eq!(position(&Role::new("nobody")), ROLES.len());
    }

    #[test]
    fn the_table_of_the_manual_says_what_is_declared() {
        let path = format!("{}/../../docs/llm.md", env!("CARGO_MANIFEST_DIR"));
        let manual = fs::read_to_string(path).unwrap();
        let rows: Vec<&str> = manual.lines().filter(|line| line.starts_with("| `")).collect();
        for spec in &ROLES {
            let temperature = spec.temperature.map_or("none".to_owned(), |t| t.to_string());
            let start = format!("| `{}` | {}", spec.name, spec.summary);
            let end = format!("| {temperature} | {} |", spec.max_tokens);
            let is_listed = rows.iter().any(|row| row.starts_with(&start) && row.ends_with(&end));
            assert!(is_listed, "{start} ... {end}");
        }
    }
}
