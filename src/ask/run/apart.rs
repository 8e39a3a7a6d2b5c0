//! Refuses plans whose number would be exact and yet not what the question asks for: conditions on
//! rows of a table of links that need not be the same row, and zeros of a whole whose parts have
//! the rows.

use crate::{
    AskError, missing,
    plan::{Condition, Plan},
};
use agent_ground::words::singular;
use agent_kb::{Direction, Kb, MetapathStep, TypeId, table::ColumnSpec};

/// Refuses a plan that follows the links of a table and reads columns of the same table's rows: "how
/// many issues did Ada report by phone" would count issues that Ada reported and somebody reported
/// by phone.
///
/// # Errors
/// [`AskError::Missing`] for such a plan.
pub(super) fn refuse_rows_apart(kb: &Kb, plan: &Plan) -> Result<(), AskError> {
    let table_of = |step: &MetapathStep| {
        let name = kb.relation_name(step.relation);
        kb.type_id(name).or_else(|| kb.type_id(&singular(name)))
    };
    let columns = plan.used().into_iter().filter_map(|at| plan.columns.get(at));
    let mut through: Vec<&MetapathStep> = columns.flat_map(ColumnSpec::steps).collect();
    through.extend(plan.conditions.iter().flat_map(|own| &own.steps));
    for Condition { steps, name, .. } in &plan.conditions {
        for table in steps.iter().filter_map(table_of) {
            if table != plan.rows && through.iter().any(|step| step.to == table) {
                let kind = kb.type_name(table);
                return missing(format!(
                    "{name:?} and a value of {kind} may belong to different {kind} rows; ask for \
                     {kind} rows"
                ));
            }
        }
    }
    Ok(())
}

/// Refuses a plan without rows if one of its names has parts, nodes of its own type that refer to
/// it, such as the wards of a hospital: they may have the rows.
///
/// # Errors
/// [`AskError::Missing`] for such a plan.
pub(super) fn refuse_empty_whole(kb: &Kb, plan: &Plan) -> Result<(), AskError> {
    let parts = |kind: TypeId| {
        let tuples = kb.tuples().iter();
        tuples.filter(move |tuple| tuple.source == kind && tuple.target == kind)
    };
    for Condition { nodes, steps, name } in &plan.conditions {
        for &node in nodes.iter().filter(|_| !steps.is_empty()) {
            let kind = kb.node_type(node);
            if kind == plan.rows {
                continue;
            }
            let part = parts(kind).find(|tuple| kb.degree(node, tuple.relation, Direction::In) > 0);
            if let Some(tuple) = part {
                let (kind, rows) = (kb.type_name(kind), kb.type_name(plan.rows));
                let relation = kb.relation_name(tuple.relation);
                return missing(format!(
                    "no {rows} is linked to {name:?} itself, but {kind} nodes refer to it by \
                     {relation}; ask for one of them"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use crate::Analyst;
    use agent_testing::base_of;

    #[test]
    fn a_number_of_other_rows_or_of_a_whole_without_its_parts_is_refused() {
        let (mut nodes, mut edges) = (String::new(), String::new());
        let mut add = |id: usize, kind: &str, name: &str, details: &str| {
            writeln!(
                nodes,
                r#"{{"id": {id}, "type": "{kind}", "name": "{name}", "details": {details}}}"#
            )
            .unwrap();
        };
        add(0, "customer", "Blue Wool", "{}");
        add(1, "customer", "Red Silk", "{}");
        add(2, "site", "Moss Hill", "{}");
        add(3, "site", "Fern Ward", "{}");
        writeln!(edges, "3\tpart_of\t2").unwrap();
        for n in 0..6 {
            let issue = 4 + 3 * n;
            add(issue, "issue", &format!("Leak {n}"), "{}");
            writeln!(edges, "{issue}\tlocated_on\t3").unwrap();
            for customer in 0..2 {
                let report = issue + 1 + customer;
                let channel = ["mail", "phone"][(n + customer) % 2];
                let details = format!(r#"{{"channel": "{channel}"}}"#);
                add(report, "report", &format!("R{report}"), &details);
                writeln!(edges, "{report}\tof_customer\t{customer}").unwrap();
                writeln!(edges, "{report}\tof_issue\t{issue}").unwrap();
                writeln!(edges, "{customer}\treports\t{issue}").unwrap();
            }
        }
        let base = base_of(&nodes, &edges, "customer site issue report");
        let analyst = Analyst::new(base);
        let asked = |question: &str| match analyst.ask(question) {
            Ok(answered) => answered.told,
            Err(error) => error.to_string(),
        };
        assert_eq!(asked("How many issues are located on Fern Ward?"), "6 (issue rows)");
        let whole = asked("How many issues are located on Moss Hill?");
        assert!(whole.contains("site nodes refer to it by part_of"), "{whole}");
        // Six issues have reports by Blue Wool and by phone, of which three are one report.
        for question in ["reported with channel phone", "with a report with channel phone"] {
            let apart = asked(&format!("How many issues has Blue Wool {question}?"));
            assert!(!apart.starts_with('6'), "{apart}");
        }
    }
}
