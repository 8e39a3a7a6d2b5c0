//! Formats nodes for prompts: documents, relations with directions, and links to the entities of
//! the query. The text has a limited length and is the same for all roles of the model.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use agent_ground::words::cut;
use agent_index::{IndexedBase, excerpt::text_about};
use agent_kb::{Direction, NodeId, RelationId, best};

/// Maximum number of linked entities.
const MAX_ENTITIES: usize = 6;
/// Maximum number of linked entities of one type.
const MAX_PER_TYPE: usize = 3;
/// Number of linked nodes per type from which the entities are selected.
const LINKED_PER_TYPE: usize = 10;
/// Maximum number of [`Entity::namesakes`].
const MAX_NAMESAKES: usize = 4;
/// Minimum link strength of an entity, in `0..=1`.
const MIN_STRENGTH: f32 = 0.2;
/// Maximum number of neighbours whose names are shown, per relation and direction.
const NAMED: usize = 8;
/// Maximum length in characters of the relations of a judged node and its entities; the first line
/// is always shown.
pub(super) const RELATION_CHARS: usize = 800;
/// Maximum total length in characters of the relations that are listed without their neighbours.
const FURTHER_CHARS: usize = 400;
/// A node with at least this number of neighbours over one relation and direction is a hub. Links
/// through hubs, such as a venue or a colour, are not informative.
const HUB: usize = 300;
/// Maximum number of neighbours that are read, per relation and direction.
const MAX_NEIGHBORS: usize = 20_000;
/// Maximum number of links between a candidate and the linked entities.
const MAX_LINKS: usize = 12;
/// Maximum number of links between a candidate and one entity.
const LINKS_TO_ONE: usize = 4;
/// Text that follows the strength of an entity that a language model found in the query.
const READ: &str = ", which the query was read to mean";
/// Maximum length of a name in characters.
const NAME_CHARS: usize = 100;

/// A linked entity and its neighbours.
pub(super) struct Entity {
    pub(super) node: NodeId,
    /// Other nodes of the same type and name, to which the query may also refer.
    pub(super) namesakes: Vec<NodeId>,
    pub(super) strength: f32,
    /// Whether a language model found the entity in the query.
    is_read: bool,
    /// Neighbours of `node` by relation and direction; each list ascending by id.
    neighbors: Vec<(RelationId, Direction, Vec<NodeId>)>,
}

impl Entity {
    fn new(base: &IndexedBase, (node, strength): (NodeId, f32), is_read: bool) -> Self {
        let neighbors = neighbors(base, node).collect();
        Self { node, namesakes: Vec::new(), strength, is_read, neighbors }
    }

    fn includes(&self, node: NodeId) -> bool {
        self.node == node || self.namesakes.contains(&node)
    }
}

/// Entities of a query: first those that a language model found in it, then the others by
/// descending strength, ties by ascending id. Nodes of the same type and name are one entity.
pub(crate) struct LinkedEntities<'a> {
    base: &'a IndexedBase,
    pub(super) entities: Vec<Entity>,
}

/// Returns the name of a node, cut to [`NAME_CHARS`].
pub(super) fn name(base: &IndexedBase, node: NodeId) -> String {
    cut(base.kb.name(node), NAME_CHARS, "...")
}

/// Formats a step along a relation: `-has_brand->` as stored, `<-has_brand-` against it.
fn arrow(base: &IndexedBase, relation: RelationId, direction: Direction) -> String {
    direction.arrow(base.kb.relation_name(relation))
}

/// Returns the neighbours of a node by relation and direction, at most [`MAX_NEIGHBORS`] each;
/// empty lists are left out.
fn neighbors(
    base: &IndexedBase,
    node: NodeId,
) -> impl Iterator<Item = (RelationId, Direction, Vec<NodeId>)> + '_ {
    (0..base.kb.relations().len()).flat_map(move |relation| {
        let relation = RelationId(relation as u16);
        [Direction::Out, Direction::In].into_iter().filter_map(move |direction| {
            let known = base.kb.neighbors(node, relation, direction);
            let found: Vec<NodeId> = known.iter().take(MAX_NEIGHBORS).copied().collect();
            (!found.is_empty()).then_some((relation, direction, found))
        })
    })
}

/// Formats one line per relation and direction: type, number and names of the neighbours.
/// Neighbours in `first` are named first, and lines with such neighbours come first. Relations
/// beyond `max_chars` share one line without names, see [`further`].
fn relation_lines(
    base: &IndexedBase,
    lists: impl Iterator<Item = (RelationId, Direction, Vec<NodeId>)>,
    first: &[NodeId],
    max_chars: usize,
) -> String {
    let (mut asked_for, mut other): (Vec<_>, Vec<_>) =
        lists.partition(|(_, _, nodes)| nodes.iter().any(|node| first.contains(node)));
    asked_for.append(&mut other);
    let head = |(relation, direction, nodes): &(RelationId, Direction, Vec<NodeId>)| {
        let kind = nodes.first().map_or("", |&node| base.kb.type_name(base.kb.node_type(node)));
        format!("{} {kind} ({})", arrow(base, *relation, *direction), nodes.len())
    };
    let (mut text, mut length) = (String::new(), 0);
    for (at, list) in asked_for.iter().enumerate() {
        let nodes = &list.2;
        let asked = nodes.iter().filter(|node| first.contains(node));
        let others = nodes.iter().filter(|node| !first.contains(node));
        let names: Vec<String> =
            asked.chain(others).take(NAMED).map(|&node| name(base, node)).collect();
        let more = if nodes.len() > NAMED { ", ..." } else { "" };
        let line = format!("{}: {}{more}\n", head(list), names.join("; "));
        length += line.chars().count();
        if at > 0 && length > max_chars {
            text += &further(asked_for[at..].iter().map(head).collect());
            break;
        }
        text += &line;
    }
    text
}

/// Joins the heads of relations, such as `-has_part-> part (12)`, into one line. Heads beyond
/// [`FURTHER_CHARS`] are only counted.
fn further(heads: Vec<String>) -> String {
    let mut length = 0;
    let fits = |head: &&String| {
        length += head.chars().count();
        length <= FURTHER_CHARS
    };
    let shown = heads.iter().take_while(fits).count();
    let mut line = format!("further: {}", heads[..shown].join("; "));
    if shown < heads.len() {
        // Writing to a string cannot fail.
        let _ = write!(line, "; and {} more", heads.len() - shown);
    }
    line + "\n"
}

impl<'a> LinkedEntities<'a> {
    /// Finds the entities that a query names.
    pub(crate) fn link(base: &'a IndexedBase, query: &str) -> Self {
        let found = base.entities.link(&base.kb, query, &[], LINKED_PER_TYPE);
        let sure = found.filter(|_, strength| strength >= MIN_STRENGTH);
        let mut linked = Self { base, entities: Vec::new() };
        for pair in best(sure.as_slice().to_vec(), usize::MAX) {
            let kind = base.kb.node_type(pair.0);
            let alike = linked.entities.iter().filter(|one| base.kb.node_type(one.node) == kind);
            let is_full = linked.entities.len() == MAX_ENTITIES || alike.count() == MAX_PER_TYPE;
            if !linked.has_name_of(pair.0) && !is_full {
                linked.entities.push(Entity::new(base, pair, false));
            }
        }
        linked
    }

    /// Whether an entity has the type and name of a node; if so, adds the node to the namesakes of
    /// this entity.
    fn has_name_of(&mut self, node: NodeId) -> bool {
        let kb = &self.base.kb;
        let named = |of: NodeId| (kb.node_type(of), kb.name(of));
        let same = self.entities.iter_mut().find(|one| named(one.node) == named(node));
        let Some(same) = same else { return false };
        if !same.includes(node) && same.namesakes.len() < MAX_NAMESAKES {
            same.namesakes.push(node);
        }
        true
    }

    /// Puts the entities that a language model found in the query first; at most [`MAX_ENTITIES`]
    /// in total.
    pub(super) fn with(mut self, read: &[(NodeId, f32)]) -> Self {
        let mut linked = Self { base: self.base, entities: Vec::new() };
        for &(node, strength) in read {
            if linked.has_name_of(node) || linked.entities.len() == MAX_ENTITIES {
                continue;
            }
            let known = self.entities.iter().position(|entity| entity.includes(node));
            linked.entities.push(match known {
                Some(at) => Entity { is_read: true, ..self.entities.remove(at) },
                None => Entity::new(self.base, (node, strength), true),
            });
        }
        linked.entities.append(&mut self.entities);
        linked.entities.truncate(MAX_ENTITIES);
        linked
    }

    fn nodes(&self) -> Vec<NodeId> {
        let nodes = |one: &Entity| [one.node].into_iter().chain(one.namesakes.clone());
        self.entities.iter().flat_map(nodes).collect()
    }

    /// Formats the entities for a prompt: number from 1, id, type, name, strength, and relations of
    /// at most `max_chars` characters.
    pub(super) fn shown(&self, max_chars: usize) -> Vec<Json> {
        let base = self.base;
        let entity = |(n, entity): (usize, &Entity)| {
            let lists = entity.neighbors.iter().cloned();
            let read = if entity.is_read { READ } else { "" };
            let alike = match entity.namesakes.len() {
                0 => String::new(),
                n => format!(", the first of {} nodes of this name", n + 1),
            };
            json!({
                "n": n,
                "id": entity.node,
                "type": base.kb.type_name(base.kb.node_type(entity.node)),
                "name": name(base, entity.node),
                "strength": format!("{:.2}{read}{alike}", entity.strength),
                "relations": relation_lines(base, lists, &[], max_chars),
            })
        };
        (1..).zip(&self.entities).map(entity).collect()
    }

    /// Formats a node for a prompt: the parts of its document that concern the query, its links to
    /// the linked entities, and its relations with directions.
    pub(crate) fn candidate(&self, node: NodeId, query: &str, max_chars: usize) -> String {
        let base = self.base;
        let kind = base.kb.type_name(base.kb.node_type(node));
        let mut text = format!("type: {kind}\n{}", text_about(base, node, query, max_chars));
        let own: Vec<_> = neighbors(base, node).collect();
        let links = self.links(node, &own);
        if !links.is_empty() {
            text += &format!("\nlinks to what the query names:\n{}", links.join("\n"));
        }
        let relations = relation_lines(base, own.into_iter(), &self.nodes(), RELATION_CHARS);
        if !relations.is_empty() {
            text += &format!("\nrelations:\n{}", relations.trim_end());
        }
        text
    }

    /// Formats the links from a node to each linked entity, in the order of the entities: links of
    /// one step, or of two steps if there are none.
    fn links(&self, node: NodeId, own: &[(RelationId, Direction, Vec<NodeId>)]) -> Vec<String> {
        let mut links = Vec::new();
        for entity in self.entities.iter().filter(|entity| !entity.includes(node)) {
            let mut found = self.one_step(entity, own);
            if found.is_empty() {
                found = self.two_steps(entity, node, own);
            }
            found.truncate(LINKS_TO_ONE);
            links.extend(found);
        }
        links.truncate(MAX_LINKS);
        links
    }

    fn one_step(&self, to: &Entity, own: &[(RelationId, Direction, Vec<NodeId>)]) -> Vec<String> {
        let leads = own.iter().filter(|(_, _, nodes)| nodes.iter().any(|&node| to.includes(node)));
        let name = name(self.base, to.node);
        leads.map(|&(by, way, _)| format!("{} {name}", arrow(self.base, by, way))).collect()
    }

    fn two_steps(
        &self,
        entity: &Entity,
        node: NodeId,
        own: &[(RelationId, Direction, Vec<NodeId>)],
    ) -> Vec<String> {
        let base = self.base;
        let mut found = Vec::new();
        for (by, way, middles) in own {
            for (back, there, ends) in &entity.neighbors {
                let reverse = there.reversed();
                let common = middles.iter().filter(|middle| ends.binary_search(middle).is_ok());
                let says = |&&middle: &&NodeId| {
                    middle != node && base.kb.degree(middle, *back, reverse) < HUB
                };
                for &middle in common.filter(says).take(LINKS_TO_ONE) {
                    let first = format!("{} {}", arrow(base, *by, *way), name(base, middle));
                    let second = arrow(base, *back, reverse);
                    found.push(format!("{first} {second} {}", name(base, entity.node)));
                    if found.len() >= LINKS_TO_ONE {
                        return found;
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::{base_of, example_base};

    #[test]
    fn relations_have_directions_and_lead_to_what_the_query_names() {
        let base = example_base();
        let linked = LinkedEntities::link(&base, "a bottle by Tidewell");
        let brand = linked.entities[0].node;
        assert_eq!(base.kb.name(brand), "Tidewell");
        let relation = base.kb.relation_id("has_brand").unwrap();
        let product = base.kb.neighbors(brand, relation, Direction::In)[0];
        let shown = linked.candidate(product, "a bottle by Tidewell", 400);
        let (_, links) = shown.split_once("links to what the query names:\n").unwrap();
        assert!(links.starts_with("-has_brand-> Tidewell\n"), "{shown}");
        assert!(links.contains("relations:\n") && links.contains("-has_brand-> brand (1)"));
        let entity = linked.shown(RELATION_CHARS)[0]["relations"].as_str().unwrap().to_owned();
        assert!(entity.contains("<-has_brand- product (4)"), "{entity}");
    }

    #[test]
    fn relations_without_room_for_names_are_listed_and_the_rest_counted() {
        let heads = |n: usize| (0..n).map(|at| format!("-relation_{at:03}-> thing (1)")).collect();
        assert_eq!(
            further(heads(2)),
            "further: -relation_000-> thing (1); -relation_001-> thing (1)\n"
        );
        let line = further(heads(60));
        assert!(line.ends_with("thing (1); and 44 more\n"), "{line}");
    }

    #[test]
    fn nodes_of_one_name_are_one_entity() {
        let node = |id: u32, kind: &str, name: &str| {
            format!("{}\n", json!({"id": id, "type": kind, "name": name, "details": {}}))
        };
        let people = (0..4).map(|id| node(id, "person", "Ann Lee"));
        let papers = (4..8).map(|id| node(id, "paper", &format!("On the number {id}")));
        let nodes: String = people.chain(papers).chain([node(8, "street", "Ann Lee")]).collect();
        let edges: String = (4..8).map(|id| format!("{id}\twritten_by\t{}\n", id - 4)).collect();
        let base = base_of(&nodes, &edges, "paper");
        let linked = LinkedEntities::link(&base, "papers by Ann Lee");
        let names: Vec<usize> =
            linked.entities.iter().map(|entity| entity.namesakes.len()).collect();
        assert_eq!(names, [3, 0], "one person, one street");
        let strength = linked.shown(RELATION_CHARS)[0]["strength"].as_str().unwrap().to_owned();
        assert!(strength.ends_with("the first of 4 nodes of this name"), "{strength}");
        let by_the_last = linked.candidate(7, "papers by Ann Lee", 100);
        assert!(by_the_last.contains("-written_by-> Ann Lee"), "{by_the_last}");
    }

    #[test]
    fn entities_that_a_model_reads_come_first() {
        let base = example_base();
        let query = "a bottle by Tidewell";
        let nodes = |linked: &LinkedEntities<'_>| linked.nodes();
        let alone = nodes(&LinkedEntities::link(&base, query));
        let other = (0..).find(|node| !alone.contains(node)).unwrap();
        let read = LinkedEntities::link(&base, query).with(&[(other, 0.75), (alone[0], 1.0)]);
        assert_eq!(nodes(&read)[..2], [other, alone[0]]);
        assert_eq!(nodes(&read).len(), (alone.len() + 1).min(MAX_ENTITIES), "none twice");
        let strength =
            |at: usize| read.shown(RELATION_CHARS)[at]["strength"].as_str().unwrap().to_owned();
        assert_eq!(strength(0), "0.75, which the query was read to mean");
        assert!(
            strength(1).ends_with(READ) && !strength(1).starts_with("1.00"),
            "its own strength"
        );
    }

    #[test]
    fn links_of_two_steps_are_named_where_there_is_none_of_one() {
        let base = example_base();
        let relation = base.kb.relation_id("has_brand").unwrap();
        let beside = |node, other| neighbors(&base, node).any(|list| list.2.contains(&other));
        let brands = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap());
        let products = brands.iter().map(|&b| base.kb.neighbors(b, relation, Direction::In));
        // Two products of one brand that nothing joins directly.
        let mut pairs = products.flat_map(|products| {
            let pairs = products.iter().flat_map(|&a| products.iter().map(move |&b| (a, b)));
            pairs.collect::<Vec<_>>()
        });
        let (named, other) = pairs.find(|&(a, b)| a != b && !beside(a, b)).unwrap();
        let query = format!("like \"{}\"", base.kb.name(named));
        let shown = LinkedEntities::link(&base, &query).candidate(other, &query, 100);
        let (_, links) = shown.split_once("links to what the query names:\n").unwrap();
        let first = links.lines().next().unwrap();
        assert!(first.ends_with(base.kb.name(named)), "{shown}");
        assert_eq!(first.matches("->").count() + first.matches("<-").count(), 2, "{shown}");
    }
}
