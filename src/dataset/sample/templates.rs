//! The 40 question templates of STaRK as data: slots, walks and phrasings.
//!
//! It must not know how slots are sampled or how names are spelled in a question.
//! Walks follow Wu et al. 2024 (STaRK, appendix A.2 to A.4); the phrasings are our own.
//! A walk ignores the stored orientation. amazon-02 has two entries, one per relation, worded as
//! what goes with a product and as what could replace it.
//!
//! Placeholders: `{a}` and `{b}` are the slots; `{that}` becomes " that X and Y", `{it}` a further
//! sentence about "it", `{keys}` a list of short forms; all three vanish for a purely relational
//! question.

use crate::dataset::sample::SampleKind;

/// A walk from a slot to the target type, or, if negated, from the target.
pub(super) struct Branch {
    /// Position of the slot that starts the walk; unused when negated.
    pub(super) slot: usize,
    /// (relation, type reached) per step.
    pub(super) hops: &'static [(&'static str, &'static str)],
    /// Keeps only targets from which this walk ends nowhere.
    pub(super) negated: bool,
}

/// One template.
pub(super) struct Template {
    /// Identifier such as `prime-14`.
    pub(super) id: &'static str,
    /// Which base it asks.
    pub(super) kind: SampleKind,
    /// Type of the answers.
    pub(super) target: &'static str,
    /// Types of the slots.
    pub(super) slots: &'static [&'static str],
    /// Walks; the answers are the intersection of the plain ones minus the negated ones.
    pub(super) branches: &'static [Branch],
    /// Whether slot nodes are taken out of the answers.
    pub(super) exclude_slots: bool,
    /// Phrasings.
    pub(super) patterns: &'static [&'static str],
}

const fn walk(slot: usize, hops: &'static [(&'static str, &'static str)]) -> Branch {
    Branch { slot, hops, negated: false }
}

const WRITES: &str = "author___writes___paper";
const TOPIC: &str = "paper___has_topic___field_of_study";
const AFFILIATED: &str = "author___affiliated_with___institution";
const CITES: &str = "paper___cites___paper";
const GENE: &str = "gene/protein";
const EFFECT: &str = "effect/phenotype";

use SampleKind::{Amazon, Mag, Prime};

/// All templates, by id.
pub(super) static TEMPLATES: [Template; 41] = [
    Template {
        id: "amazon-01",
        kind: Amazon,
        target: "product",
        slots: &["brand"],
        branches: &[walk(0, &[("has_brand", "product")])],
        exclude_slots: false,
        patterns: &[
            "Which product made by {a} is there{that}?",
            "What does {a} sell{that}?",
            "{a}{keys}",
            "I trust {a} and need something new.{it}",
            "Anything from {a}{that}? Recommendations welcome.",
        ],
    },
    Template {
        id: "amazon-02",
        kind: Amazon,
        target: "product",
        slots: &["product"],
        branches: &[walk(0, &[("also_buy", "product")])],
        exclude_slots: true,
        patterns: &[
            "What goes well with the {a}? I want something{that}.",
            "I already own the {a} and am after a companion piece.{it}",
            "complement for {a}{keys}",
            "Is there an add-on to pair with my {a}{that}?",
        ],
    },
    Template {
        id: "amazon-02",
        kind: Amazon,
        target: "product",
        slots: &["product"],
        branches: &[walk(0, &[("also_view", "product")])],
        exclude_slots: true,
        patterns: &[
            "What could I take instead of the {a}? I want something{that}.",
            "The {a} is sold out; please suggest a substitute.{it}",
            "alternative to {a}{keys}",
            "Is there a replacement for the {a}{that}?",
        ],
    },
    Template {
        id: "amazon-03",
        kind: Amazon,
        target: "product",
        slots: &["color"],
        branches: &[walk(0, &[("has_color", "product")])],
        exclude_slots: false,
        patterns: &[
            "Which item in {a} can you show me{that}?",
            "I love {a} and would like something in that shade.{it}",
            "{a} colour{keys}",
            "Is there anything coloured {a}{that}?",
            "It has to be {a}, nothing else.{it}",
        ],
    },
    Template {
        id: "amazon-04",
        kind: Amazon,
        target: "product",
        slots: &["category"],
        branches: &[walk(0, &[("has_category", "product")])],
        exclude_slots: false,
        patterns: &[
            "Which article listed under {a} is there{that}?",
            "Browsing the {a} section for a gift.{it}",
            "{a}{keys}",
            "In the {a} category, is there anything{that}?",
        ],
    },
    Template {
        id: "amazon-05",
        kind: Amazon,
        target: "product",
        slots: &["color", "brand"],
        branches: &[walk(0, &[("has_color", "product")]), walk(1, &[("has_brand", "product")])],
        exclude_slots: false,
        patterns: &[
            "Does {b} make something in {a}{that}?",
            "{b} in {a}{keys}",
            "I collect everything {a} by {b}.{it}",
            "Show me a {a} item of the brand {b}{that}.",
        ],
    },
    Template {
        id: "mag-01",
        kind: Mag,
        target: "paper",
        slots: &["author"],
        branches: &[walk(0, &[(WRITES, "paper")])],
        exclude_slots: false,
        patterns: &[
            "Which paper by {a} is there{that}?",
            "{a}{keys}",
            "I remember a text that {a} wrote.{it}",
            "Publications of {a}{that}",
            "Has {a} ever authored an article{that}?",
        ],
    },
    Template {
        id: "mag-02",
        kind: Mag,
        target: "paper",
        slots: &["paper"],
        branches: &[walk(0, &[(CITES, "paper")])],
        exclude_slots: true,
        patterns: &[
            "Which reference connected with \"{a}\" is there{that}?",
            "cited by {a}{keys}",
            "I just read \"{a}\" and want to follow its bibliography.{it}",
            "In the citation neighbourhood of \"{a}\", find an article{that}.",
        ],
    },
    Template {
        id: "mag-03",
        kind: Mag,
        target: "paper",
        slots: &["field_of_study"],
        branches: &[walk(0, &[(TOPIC, "paper")])],
        exclude_slots: false,
        patterns: &[
            "Which paper in the field of {a} is there{that}?",
            "{a}{keys}",
            "I work in {a} and search for reading.{it}",
            "Find an article classified under {a}{that}.",
        ],
    },
    Template {
        id: "mag-04",
        kind: Mag,
        target: "paper",
        slots: &["institution"],
        branches: &[walk(0, &[(AFFILIATED, "author"), (WRITES, "paper")])],
        exclude_slots: false,
        patterns: &[
            "Which paper from researchers at {a} is there{that}?",
            "{a}{keys}",
            "Someone at {a} published on this.{it}",
            "What has come out of {a}{that}?",
        ],
    },
    Template {
        id: "mag-05",
        kind: Mag,
        target: "paper",
        slots: &["paper"],
        branches: &[walk(0, &[(WRITES, "author"), (WRITES, "paper")])],
        exclude_slots: true,
        patterns: &[
            "Which other text shares an author with \"{a}\"{that}?",
            "same authors as {a}{keys}",
            "I liked \"{a}\". What else did its writers publish?{it}",
            "Find further work by the team behind \"{a}\"{that}.",
        ],
    },
    Template {
        id: "mag-06",
        kind: Mag,
        target: "paper",
        slots: &["paper"],
        branches: &[
            walk(0, &[(WRITES, "author"), (WRITES, "paper")]),
            walk(0, &[(TOPIC, "field_of_study"), (TOPIC, "paper")]),
        ],
        exclude_slots: true,
        patterns: &[
            "Which text shares both an author and a field with \"{a}\"{that}?",
            "same author and same field as {a}{keys}",
            "Did the people behind \"{a}\" publish more in that very discipline?{it}",
            "Find a sibling of \"{a}\" by a common author and in a common discipline{that}.",
        ],
    },
    Template {
        id: "mag-07",
        kind: Mag,
        target: "paper",
        slots: &["institution", "field_of_study"],
        branches: &[
            walk(0, &[(AFFILIATED, "author"), (WRITES, "paper")]),
            walk(1, &[(TOPIC, "paper")]),
        ],
        exclude_slots: false,
        patterns: &[
            "Which {b} paper from {a} is there{that}?",
            "{a} {b}{keys}",
            "What do people at {a} write about {b}?{it}",
            "Find an article in {b} with an author at {a}{that}.",
        ],
    },
    Template {
        id: "prime-01",
        kind: Prime,
        target: "disease",
        slots: &[EFFECT],
        branches: &[
            walk(0, &[("phenotype absent", "disease")]),
            Branch { slot: 0, hops: &[("indication", "drug")], negated: true },
        ],
        exclude_slots: false,
        patterns: &[
            "Which disease in which {a} is absent has no approved drug{that}?",
            "untreated disease, {a} excluded{keys}",
            "My patient does not have {a}, and nothing is indicated for the condition.{it} What could it be?",
            "Find an illness without any indicated medicine in which {a} does not occur{that}.",
        ],
    },
    Template {
        id: "prime-02",
        kind: Prime,
        target: "disease",
        slots: &["drug", GENE],
        branches: &[
            walk(0, &[("contraindication", "disease")]),
            walk(1, &[("associated with", "disease")]),
        ],
        exclude_slots: false,
        patterns: &[
            "Which disease linked to {b} rules out {a}{that}?",
            "{a} contraindicated, {b} associated{keys}",
            "I must not prescribe {a} here and suspect {b} to be involved.{it} Which condition is it?",
            "Find an illness associated with {b} in which {a} is contraindicated{that}.",
        ],
    },
    Template {
        id: "prime-03",
        kind: Prime,
        target: GENE,
        slots: &["anatomy", "anatomy"],
        branches: &[
            walk(0, &[("expression present", GENE)]),
            walk(1, &[("expression absent", GENE)]),
        ],
        exclude_slots: false,
        patterns: &[
            "Which gene is expressed in {a} but not in {b}{that}?",
            "expressed {a}, absent {b}{keys}",
            "I compare {a} with {b} and need a marker that is on in the first and off in the second.{it}",
            "Find a protein present in {a} and missing in {b}{that}.",
        ],
    },
    Template {
        id: "prime-04",
        kind: Prime,
        target: GENE,
        slots: &["anatomy", "anatomy"],
        branches: &[
            walk(0, &[("expression absent", GENE)]),
            walk(1, &[("expression absent", GENE)]),
        ],
        exclude_slots: false,
        patterns: &[
            "Which gene is expressed neither in {a} nor in {b}{that}?",
            "absent {a}, absent {b}{keys}",
            "My assay finds nothing in {a} and nothing in {b}.{it} Which gene fits?",
            "Find a protein missing from both {a} and {b}{that}.",
        ],
    },
    Template {
        id: "prime-05",
        kind: Prime,
        target: GENE,
        slots: &["drug", "drug"],
        branches: &[walk(0, &[("carrier", GENE)]), walk(1, &[("carrier", GENE)])],
        exclude_slots: false,
        patterns: &[
            "Which carrier do {a} and {b} have in common{that}?",
            "shared carrier {a} {b}{keys}",
            "{a} and {b} seem to travel on the same protein.{it} Which one?",
            "Find a gene that carries {a} as well as {b}{that}.",
        ],
    },
    Template {
        id: "prime-06",
        kind: Prime,
        target: "drug",
        slots: &["anatomy"],
        branches: &[walk(0, &[("expression present", GENE), ("target", "drug")])],
        exclude_slots: false,
        patterns: &[
            "Which drug targets a gene expressed in {a}{that}?",
            "target active in {a}{keys}",
            "I want to treat something at the {a} and need a medicine whose target is active there.{it}",
            "Find a medicine aimed at proteins present in {a}{that}.",
        ],
    },
    Template {
        id: "prime-07",
        kind: Prime,
        target: "drug",
        slots: &["drug"],
        branches: &[walk(0, &[("side effect", EFFECT), ("side effect", "drug")])],
        exclude_slots: true,
        patterns: &[
            "Which drug has side effects in common with {a}{that}?",
            "same adverse effects as {a}{keys}",
            "I did badly on {a} and want to know what else could hit me likewise.{it}",
            "Find a medicine sharing an adverse reaction with {a}{that}.",
        ],
    },
    Template {
        id: "prime-08",
        kind: Prime,
        target: "drug",
        slots: &["drug"],
        branches: &[walk(0, &[("carrier", GENE), ("carrier", "drug")])],
        exclude_slots: true,
        patterns: &[
            "Which drug uses the same carrier as {a}{that}?",
            "carrier shared with {a}{keys}",
            "I give {a} and worry about competition for its carrier.{it} Which medicine is meant?",
            "Find a medicine carried by a protein that also carries {a}{that}.",
        ],
    },
    Template {
        id: "prime-09",
        kind: Prime,
        target: "drug",
        slots: &["anatomy"],
        branches: &[walk(0, &[("expression present", GENE), ("enzyme", "drug")])],
        exclude_slots: false,
        patterns: &[
            "Which drug is metabolised by an enzyme expressed in {a}{that}?",
            "enzyme in {a}{keys}",
            "Enzymes in the {a} break this medicine down.{it} What is it?",
            "Find a medicine processed by enzymes present in {a}{that}.",
        ],
    },
    Template {
        id: "prime-10",
        kind: Prime,
        target: "drug",
        slots: &["cellular_component"],
        branches: &[walk(0, &[("interacts with", GENE), ("carrier", "drug")])],
        exclude_slots: false,
        patterns: &[
            "Which drug has a carrier that interacts with the {a}{that}?",
            "carrier at {a}{keys}",
            "My carrier of interest touches the {a}.{it} Which medicine travels on it?",
            "Find a medicine carried by proteins tied to {a}{that}.",
        ],
    },
    Template {
        id: "prime-11",
        kind: Prime,
        target: "drug",
        slots: &["molecular_function"],
        branches: &[walk(0, &[("interacts with", GENE), ("target", "drug")])],
        exclude_slots: false,
        patterns: &[
            "Which drug hits a target with {a}{that}?",
            "target {a}{keys}",
            "I study {a} and need a medicine acting on genes with that function.{it}",
            "Find a medicine aimed at proteins involved in {a}{that}.",
        ],
    },
    Template {
        id: "prime-12",
        kind: Prime,
        target: "drug",
        slots: &[EFFECT],
        branches: &[walk(0, &[("side effect", "drug"), ("synergistic interaction", "drug")])],
        exclude_slots: false,
        patterns: &[
            "Which drug acts in synergy with one that can cause {a}{that}?",
            "synergy with drug causing {a}{keys}",
            "I take something that gave me {a}, and another medicine makes it stronger.{it}",
            "Find a medicine that boosts another one known for {a} as side effect{that}.",
        ],
    },
    Template {
        id: "prime-13",
        kind: Prime,
        target: "disease",
        slots: &["disease"],
        branches: &[walk(0, &[("indication", "drug"), ("contraindication", "disease")])],
        exclude_slots: true,
        patterns: &[
            "In which disease are the drugs for {a} contraindicated? I mean one{that}.",
            "contraindication of {a} drugs{keys}",
            "My patient is on medication for {a}; another diagnosis forbids it.{it} Which one?",
            "Find an illness that rules out a medicine indicated for {a}{that}.",
        ],
    },
    Template {
        id: "prime-14",
        kind: Prime,
        target: EFFECT,
        slots: &["disease"],
        branches: &[walk(0, &[("parent-child", "disease"), ("phenotype present", EFFECT)])],
        exclude_slots: false,
        patterns: &[
            "Which phenotypes occur in a subtype of {a}?",
            "phenotypes of {a} subtypes",
            "I was told I have a form of {a}. What signs may it show?",
            "List the effects seen in diseases directly above or below {a}.",
        ],
    },
    Template {
        id: "prime-15",
        kind: Prime,
        target: EFFECT,
        slots: &[GENE],
        branches: &[walk(0, &[("transporter", "drug"), ("side effect", EFFECT)])],
        exclude_slots: false,
        patterns: &[
            "Which side effects do drugs transported by {a} have?",
            "side effects, transporter {a}",
            "I study {a}. What can the medicines it transports do to a patient?",
            "List adverse reactions of substances moved by {a}.",
        ],
    },
    Template {
        id: "prime-16",
        kind: Prime,
        target: "exposure",
        slots: &["drug"],
        branches: &[walk(0, &[("transporter", GENE), ("interacts with", "exposure")])],
        exclude_slots: false,
        patterns: &[
            "Which exposures could alter the effect of {a} through its transporters?",
            "exposures transporter {a}",
            "I take {a} and work with chemicals. Which ones act on its transporters?",
            "List pollutants interacting with the genes that transport {a}.",
        ],
    },
    Template {
        id: "prime-17",
        kind: Prime,
        target: GENE,
        slots: &["pathway"],
        branches: &[walk(0, &[("interacts with", GENE), ("ppi", GENE)])],
        exclude_slots: false,
        patterns: &[
            "Which gene interacts with a member of the pathway {a}{that}?",
            "{a} interactor{keys}",
            "I map the surroundings of {a} and look for a binding partner of its members.{it}",
            "Find a protein that binds proteins of {a}{that}.",
        ],
    },
    Template {
        id: "prime-18",
        kind: Prime,
        target: GENE,
        slots: &["drug"],
        branches: &[walk(0, &[("synergistic interaction", "drug"), ("transporter", GENE)])],
        exclude_slots: false,
        patterns: &[
            "Which gene transports a drug that is synergistic with {a}{that}?",
            "transporter of {a} synergists{keys}",
            "I combine {a} with other medicines and ask what moves the partner drugs.{it}",
            "Find a transporter of medicines that reinforce {a}{that}.",
        ],
    },
    Template {
        id: "prime-19",
        kind: Prime,
        target: "biological_process",
        slots: &["biological_process"],
        branches: &[walk(0, &[("interacts with", GENE), ("interacts with", "biological_process")])],
        exclude_slots: true,
        patterns: &[
            "Which biological processes share genes with {a}?",
            "processes with genes of {a}",
            "I work on {a}. What other processes use the same proteins?",
            "List processes that have a gene in common with {a}.",
        ],
    },
    Template {
        id: "prime-20",
        kind: Prime,
        target: "biological_process",
        slots: &[EFFECT],
        branches: &[walk(
            0,
            &[("associated with", GENE), ("interacts with", "biological_process")],
        )],
        exclude_slots: false,
        patterns: &[
            "Which biological processes involve the genes behind {a}?",
            "processes, genes of {a}",
            "My daughter has {a}. What happens in the body on the level of its genes?",
            "List processes that interact with proteins tied to {a}.",
        ],
    },
    Template {
        id: "prime-21",
        kind: Prime,
        target: "anatomy",
        slots: &["drug"],
        branches: &[walk(0, &[("transporter", GENE), ("expression present", "anatomy")])],
        exclude_slots: false,
        patterns: &[
            "Which body parts express the transporters of {a}?",
            "anatomy transporter {a}",
            "I take {a}. Where in my body are the proteins that move it?",
            "List tissues in which transporter genes of {a} are active.",
        ],
    },
    Template {
        id: "prime-22",
        kind: Prime,
        target: "cellular_component",
        slots: &["drug"],
        branches: &[walk(0, &[("target", GENE), ("interacts with", "cellular_component")])],
        exclude_slots: false,
        patterns: &[
            "Which cellular components interact with the targets of {a}?",
            "cellular components {a} targets",
            "Where in the cell does {a} find its targets?",
            "List structures of the cell tied to genes that {a} aims at.",
        ],
    },
    Template {
        id: "prime-23",
        kind: Prime,
        target: "anatomy",
        slots: &["biological_process"],
        branches: &[walk(0, &[("interacts with", GENE), ("expression absent", "anatomy")])],
        exclude_slots: false,
        patterns: &[
            "Which body parts lack expression of genes involved in {a}?",
            "absent expression, {a}",
            "I study {a}. In which tissues are its genes silent?",
            "List anatomical sites without the proteins of {a}.",
        ],
    },
    Template {
        id: "prime-24",
        kind: Prime,
        target: "anatomy",
        slots: &[EFFECT],
        branches: &[walk(0, &[("associated with", GENE), ("expression absent", "anatomy")])],
        exclude_slots: false,
        patterns: &[
            "Which body parts lack expression of the genes tied to {a}?",
            "genes of {a} not expressed",
            "I have {a}. Which of my organs lack the responsible genes?",
            "List tissues in which genes associated with {a} are not active.",
        ],
    },
    Template {
        id: "prime-25",
        kind: Prime,
        target: "drug",
        slots: &["drug"],
        branches: &[
            walk(0, &[("indication", "disease"), ("indication", "drug")]),
            walk(0, &[("synergistic interaction", "drug")]),
        ],
        exclude_slots: true,
        patterns: &[
            "Which drug works in synergy with {a} and treats one of the same diseases{that}?",
            "synergist of {a}, same indication{keys}",
            "I prescribe {a} and want to add a partner for the same illness that strengthens it.{it}",
            "Find a medicine that reinforces {a} and shares an indication with it{that}.",
        ],
    },
    Template {
        id: "prime-26",
        kind: Prime,
        target: "pathway",
        slots: &["pathway"],
        branches: &[
            walk(0, &[("interacts with", GENE), ("interacts with", "pathway")]),
            walk(0, &[("parent-child", "pathway")]),
        ],
        exclude_slots: true,
        patterns: &[
            "Which pathway next to {a} in the hierarchy shares a gene with it{that}?",
            "parent or child of {a}, common gene{keys}",
            "I know {a} and ask for a directly related pathway with a common protein.{it}",
            "Find a parent or child of {a} that has genes in common with it{that}.",
        ],
    },
    Template {
        id: "prime-27",
        kind: Prime,
        target: GENE,
        slots: &[GENE],
        branches: &[
            walk(0, &[("associated with", "disease"), ("associated with", GENE)]),
            walk(0, &[("ppi", GENE)]),
        ],
        exclude_slots: true,
        patterns: &[
            "Which gene binds {a} and is tied to one of the same diseases{that}?",
            "{a} interactor, same disease{keys}",
            "I work on {a} and need a partner implicated in one of its illnesses.{it}",
            "Find a protein that interacts with {a} and shares a disease with it{that}.",
        ],
    },
    Template {
        id: "prime-28",
        kind: Prime,
        target: GENE,
        slots: &[GENE],
        branches: &[
            walk(0, &[("associated with", EFFECT), ("associated with", GENE)]),
            walk(0, &[("ppi", GENE)]),
        ],
        exclude_slots: true,
        patterns: &[
            "Which gene binds {a} and is tied to one of the same phenotypes{that}?",
            "{a} interactor, same phenotype{keys}",
            "I work on {a} and need a partner implicated in one of its phenotypes.{it}",
            "Find a protein that interacts with {a} and shares an effect with it{that}.",
        ],
    },
];
