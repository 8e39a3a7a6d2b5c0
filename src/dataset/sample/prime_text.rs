//! Wording of the biomedical base: aspects of diseases, drugs, genes and pathways, and their
//! fields.
//!
//! All statements are invented. It must not know which nodes are related: no text names another
//! node. The other six types have a name and a source only.

use serde_json::{Map, Value, json};

use crate::dataset::sample::facts::{Aspect, NO_FACT};
use crate::dataset::sample::names;
use crate::dataset::sample::random::Stream;

/// What is known about a disease.
pub(super) static DISEASE: [Aspect; 5] = [
    Aspect {
        name: "symptom",
        share: 95,
        sentences: &[
            "Patients typically notice {}.",
            "The leading complaint is {}.",
            "Those affected suffer from {}.",
        ],
        clauses: &["shows itself by {}", "makes people complain of {}", "causes {}"],
        keys: &["{}"],
        values: &[
            &["yellow skin", "a jaundiced complexion", "yellowish discolouration of the skin"],
            &["stabbing headaches", "severe pain in the head", "piercing head pain"],
            &["shortness of breath", "laboured breathing", "trouble catching breath"],
            &["swollen ankles", "fluid in the lower legs", "puffy feet"],
            &["blurred vision", "unclear sight", "hazy eyesight"],
            &["numb fingers", "loss of feeling in the hands", "tingling fingertips"],
            &["itchy rashes", "red patches that itch", "an irritating skin eruption"],
            &["constant thirst", "an urge to drink all day", "excessive drinking"],
            &["muscle weakness", "loss of strength in the limbs", "feeble arms and legs"],
            &["night sweats", "heavy perspiration during sleep", "drenched bed sheets"],
            &["stiff joints", "joints that hardly bend", "morning stiffness"],
            &["hair loss", "thinning hair", "bald patches"],
            &["dizzy spells", "sudden vertigo", "attacks of light-headedness"],
            &["stomach cramps", "painful spasms of the belly", "abdominal cramping"],
            &["ringing ears", "a persistent buzzing in the ears", "tinnitus"],
            &["memory lapses", "forgetfulness", "gaps in remembering"],
        ],
    },
    Aspect {
        name: "onset",
        share: 75,
        sentences: &["It usually begins {}.", "First signs appear {}.", "Most cases start {}."],
        clauses: &["begins {}", "first appears {}", "starts {}"],
        keys: &["onset {}"],
        values: &[
            &["right after birth", "in newborns", "in the first days of life"],
            &["in early childhood", "before school age", "in toddlers"],
            &["during puberty", "in adolescence", "in the teenage years"],
            &["in young adults", "between twenty and thirty-five", "in the third decade of life"],
            &["in late middle age", "after the fiftieth birthday", "in people past fifty"],
            &["only in the elderly", "in very old people", "late in life"],
        ],
    },
    Aspect {
        name: "course",
        share: 70,
        sentences: &["The condition {}.", "In most instances it {}.", "Over time the illness {}."],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &["resolves without treatment", "heals by itself", "clears up spontaneously"],
            &[
                "progresses slowly over decades",
                "worsens very gradually",
                "advances at a slow pace",
            ],
            &["comes and goes in waves", "relapses and remits", "flares up now and then"],
            &["is fatal within months", "leads to death rapidly", "has a grave outlook"],
            &[
                "leaves lasting disability",
                "causes permanent impairment",
                "ends in chronic handicap",
            ],
            &[
                "can be cured by surgery",
                "responds to an operation",
                "is treatable with the scalpel",
            ],
            &[
                "remains silent for years",
                "goes unnoticed for a long time",
                "stays without signs at first",
            ],
            &["tends to return after therapy", "often recurs", "comes back once treated"],
        ],
    },
    Aspect {
        name: "cause",
        share: 75,
        sentences: &[
            "It arises from {}.",
            "The origin lies in {}.",
            "Research points to {} as the trigger.",
        ],
        clauses: &["arises from {}", "goes back to {}", "is brought about by {}"],
        keys: &["due to {}"],
        values: &[
            &[
                "a recessive mutation",
                "two faulty copies inherited from both parents",
                "autosomal recessive inheritance",
            ],
            &[
                "a dominant mutation",
                "one altered copy from either parent",
                "autosomal dominant inheritance",
            ],
            &["a viral infection", "a virus", "contact with a viral pathogen"],
            &["bacterial toxins", "poison from bacteria", "microbial toxins"],
            &[
                "an autoimmune reaction",
                "the immune system attacking the own body",
                "misguided body defences",
            ],
            &["lack of a vitamin", "vitamin deficiency", "poor supply of vitamins"],
            &["long exposure to dust", "inhaled particles", "years of breathing dusty air"],
            &["chronic stress", "lasting mental strain", "permanent tension"],
            &["parasites", "tiny worms", "a parasitic invader"],
            &["injury", "earlier trauma", "physical damage in the past"],
        ],
    },
    Aspect {
        name: "diagnosis",
        share: 60,
        sentences: &["Diagnosis rests on {}.", "It is confirmed by {}.", "Clinicians order {}."],
        clauses: &["is diagnosed by {}", "is confirmed with {}", "can be detected through {}"],
        keys: &["diagnosed by {}"],
        values: &[
            &["a blood smear", "a look at blood cells", "microscopy of a blood film"],
            &["an MRI scan", "magnetic resonance imaging", "a magnetic scanner"],
            &["a tissue biopsy", "a small tissue sample", "removal of a piece of tissue"],
            &["DNA sequencing", "a genetic test", "reading the genome"],
            &["a urine test", "urinalysis", "a check of the urine"],
            &["an electrocardiogram", "an ECG trace", "recording the heart's currents"],
            &["an ultrasound examination", "sonography", "an echo image"],
            &["a breathing test", "spirometry", "measuring lung volume"],
        ],
    },
];

/// What is known about a drug.
pub(super) static DRUG: [Aspect; 6] = [
    Aspect {
        name: "mechanism",
        share: 92,
        sentences: &[
            "The compound {}.",
            "Its action: it {}.",
            "At the molecular level the agent {}.",
        ],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &["blocks calcium channels", "keeps calcium out of the cell", "closes calcium pores"],
            &[
                "inhibits a kinase",
                "stops phosphorylation",
                "shuts down a phosphate transferring protein",
            ],
            &["opens potassium channels", "lets potassium leave the cell", "raises potassium flow"],
            &["mimics a hormone", "imitates hormonal signals", "acts like a natural hormone"],
            &["breaks down blood clots", "dissolves thrombi", "lyses clotted blood"],
            &[
                "damages bacterial walls",
                "weakens the envelope of bacteria",
                "disrupts bacterial cell walls",
            ],
            &["lowers acid secretion", "reduces stomach acid", "suppresses gastric juice"],
            &["slows nerve conduction", "dampens the firing of nerves", "calms overactive neurons"],
            &[
                "prevents viral replication",
                "stops viruses from copying",
                "keeps a virus from multiplying",
            ],
            &[
                "relaxes smooth muscle",
                "loosens involuntary muscles",
                "eases muscular tone of vessels",
            ],
            &["binds free iron", "chelates iron", "captures surplus iron"],
            &[
                "stimulates insulin release",
                "makes the pancreas secrete insulin",
                "boosts insulin output",
            ],
            &["suppresses the immune response", "tames body defences", "weakens immunity"],
            &[
                "cuts cholesterol synthesis",
                "reduces production of blood fat",
                "lowers lipid formation",
            ],
        ],
    },
    Aspect {
        name: "form",
        share: 70,
        sentences: &["It is supplied as {}.", "Dosage form: {}.", "Pharmacies dispense it as {}."],
        clauses: &["is available as {}", "comes as {}", "is given as {}"],
        keys: &["{}"],
        values: &[
            &["a chewable tablet", "a tablet to chew", "chewing tablets"],
            &["a nasal spray", "a spray for the nose", "an intranasal mist"],
            &["a skin patch", "a transdermal plaster", "an adhesive patch"],
            &["an intravenous infusion", "a drip into the vein", "an IV solution"],
            &["eye drops", "an ophthalmic solution", "drops for the eyes"],
            &["an oral syrup", "a sweet liquid to swallow", "a drinkable solution"],
            &["a depot injection", "a long-acting shot", "a slow-release injection"],
            &["an inhaler powder", "a dry powder to inhale", "inhalation powder"],
        ],
    },
    Aspect {
        name: "half_life",
        share: 70,
        sentences: &[
            "The half-life is {}.",
            "Half of a dose is gone after {}.",
            "It is eliminated with a half-life of {}.",
        ],
        clauses: &["has a half-life of {}", "loses half of its level after {}"],
        keys: &["half-life {}"],
        values: &[
            &["less than one hour", "under sixty minutes", "only minutes"],
            &["about four hours", "roughly four hours", "4 hours"],
            &["about twelve hours", "half a day", "12 hours"],
            &["about two days", "some 48 hours", "two days"],
            &["about one week", "some seven days", "a week"],
            &["more than a month", "over thirty days", "several weeks"],
        ],
    },
    Aspect {
        name: "caution",
        share: 60,
        sentences: &["Caution: {}.", "Prescribers are told that {}.", "The label warns that {}."],
        clauses: &["comes with the warning that {}", "carries the note that {}"],
        keys: &["{}"],
        values: &[
            &[
                "grapefruit must be avoided",
                "it must not be taken with grapefruit juice",
                "grapefruit raises its level",
            ],
            &[
                "alcohol is forbidden",
                "drinking is not allowed",
                "it must not be mixed with liquor",
            ],
            &[
                "sunlight should be avoided",
                "the skin burns easily in the sun",
                "strong light is harmful during use",
            ],
            &["driving is unsafe", "it makes you unfit to drive", "no vehicles may be steered"],
            &[
                "liver values need monitoring",
                "hepatic tests are required",
                "the liver has to be checked",
            ],
            &[
                "kidney function must be checked",
                "renal tests are required",
                "it needs intact kidneys",
            ],
            &[
                "abrupt withdrawal is dangerous",
                "it must be tapered off",
                "one should not stop suddenly",
            ],
            &[
                "it must not be used in pregnancy",
                "it harms the unborn child",
                "expectant mothers have to avoid it",
            ],
            &[
                "it has to be taken with food",
                "a meal is needed before each dose",
                "an empty stomach is to be avoided",
            ],
            &["refrigeration is required", "it must be kept cold", "it spoils at room temperature"],
        ],
    },
    Aspect {
        name: "source",
        share: 60,
        sentences: &[
            "It was derived from {}.",
            "The substance was first isolated from {}.",
            "Chemists obtain it from {}.",
        ],
        clauses: &["is derived from {}", "was first obtained from {}", "stems from {}"],
        keys: &["from {}"],
        values: &[
            &["a soil fungus", "a mould living in earth", "fungal cultures"],
            &["willow bark", "the bark of a tree", "tree bark"],
            &["a sea sponge", "a marine sponge", "sponges of the ocean"],
            &["snake venom", "the poison of a viper", "a serpent's toxin"],
            &["coal tar", "a tar fraction", "distilled tar"],
            &["recombinant bacteria", "engineered microbes", "genetically modified bacteria"],
            &["poppy seeds", "a poppy plant", "poppies"],
            &["human plasma", "donated blood plasma", "the serum of donors"],
        ],
    },
    Aspect {
        name: "binding",
        share: 55,
        sentences: &[
            "In plasma it {}.",
            "Pharmacokinetics: the substance {}.",
            "After uptake it {}.",
        ],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &[
                "crosses the blood-brain barrier",
                "enters the brain easily",
                "reaches the central nervous system",
            ],
            &[
                "is excreted unchanged",
                "leaves the body without being altered",
                "is not metabolised",
            ],
            &["accumulates in fat", "builds up in adipose tissue", "is stored in body fat"],
            &[
                "binds almost fully to albumin",
                "is tightly protein bound",
                "sticks to serum proteins",
            ],
            &[
                "is poorly absorbed from the gut",
                "has low oral uptake",
                "hardly passes the bowel wall",
            ],
            &[
                "is activated only in the body",
                "is a prodrug",
                "becomes effective after conversion",
            ],
        ],
    },
];

/// What is known about a gene or its protein.
pub(super) static GENE: [Aspect; 5] = [
    Aspect {
        name: "role",
        share: 95,
        sentences: &["The encoded protein {}.", "Studies show that it {}.", "This product {}."],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &["repairs broken DNA", "mends double strand breaks", "restores damaged DNA"],
            &[
                "moves vesicles along microtubules",
                "hauls cargo inside the cell",
                "walks along the cytoskeleton with cargo",
            ],
            &["silences transcription", "represses gene reading", "keeps other genes switched off"],
            &[
                "marks proteins for destruction",
                "attaches ubiquitin",
                "tags proteins for degradation",
            ],
            &["senses oxygen", "responds to lack of oxygen", "acts as an oxygen detector"],
            &["splices messenger RNA", "removes introns", "joins exons of the transcript"],
            &["anchors neighbouring cells", "holds cells together", "provides cell adhesion"],
            &["pumps protons", "moves hydrogen ions across membranes", "acidifies compartments"],
            &[
                "triggers programmed cell death",
                "initiates apoptosis",
                "makes cells kill themselves",
            ],
            &["regulates the body clock", "keeps the daily rhythm", "times the circadian cycle"],
            &["folds other proteins", "acts as a chaperone", "helps chains reach their shape"],
            &[
                "presents antigens",
                "shows foreign fragments to immune cells",
                "displays peptides for defence",
            ],
            &["guides growing axons", "steers nerve fibres", "leads neurons to their goal"],
            &["stores iron", "keeps iron in reserve", "sequesters ferric ions"],
        ],
    },
    Aspect {
        name: "family",
        share: 75,
        sentences: &[
            "It belongs to the {}.",
            "By sequence it is part of the {}.",
            "Domain analysis places it in the {}.",
        ],
        clauses: &["belongs to the {}", "is a member of the {}"],
        keys: &["{}"],
        values: &[
            &["zinc finger family", "group of zinc binding fingers", "zinc finger proteins"],
            &["serine protease family", "group of serine cutting proteases", "serine proteinases"],
            &[
                "G protein-coupled receptors",
                "seven-helix receptors",
                "receptors with seven membrane passes",
            ],
            &["heat shock proteins", "stress-induced chaperone group", "HSP group"],
            &["solute carriers", "SLC superfamily", "solute moving group"],
            &["homeobox genes", "homeodomain class", "homeotic regulators"],
            &["tyrosine phosphatases", "phosphate removers of tyrosine", "PTP group"],
            &["immunoglobulin superfamily", "proteins with immunoglobulin folds", "Ig-like group"],
            &["small GTPases", "Ras-like switches", "little GTP binding switches"],
            &["keratins", "intermediate filament formers", "horn-like structural proteins"],
        ],
    },
    Aspect {
        name: "location",
        share: 65,
        sentences: &[
            "Within the cell it sits {}.",
            "The product is found {}.",
            "Staining shows it {}.",
        ],
        clauses: &["sits {}", "is found {}", "resides {}"],
        keys: &["{}"],
        values: &[
            &[
                "at the inner mitochondrial membrane",
                "in the power plants of the cell",
                "inside mitochondria",
            ],
            &["in the nucleolus", "in the core of the nucleus", "where ribosomes are built"],
            &["at the cell surface", "on the outer face of the cell", "in the plasma membrane"],
            &["in the Golgi stacks", "within the Golgi body", "at the sorting station of the cell"],
            &[
                "in the extracellular matrix",
                "outside the cell between fibres",
                "in the space around cells",
            ],
            &["at the synapse", "where nerve cells meet", "in synaptic endings"],
            &["in lysosomes", "inside digestive vesicles", "in acidic degradation bodies"],
            &["at the centrosome", "near the spindle poles", "where the spindle is organised"],
        ],
    },
    Aspect {
        name: "regulation",
        share: 60,
        sentences: &[
            "Its level {}.",
            "Measured over time, the amount {}.",
            "In culture, abundance {}.",
        ],
        clauses: &["has a level that {}", "shows an abundance that {}"],
        keys: &["level {}"],
        values: &[
            &["rises during fasting", "goes up when food is scarce", "increases in hunger"],
            &["falls with age", "declines in old individuals", "decreases over a lifetime"],
            &[
                "peaks during mitosis",
                "is highest when cells divide",
                "has its maximum at cell division",
            ],
            &["responds to oestrogen", "depends on female hormones", "is driven by oestradiol"],
            &[
                "increases after infection",
                "climbs when pathogens arrive",
                "is induced by microbes",
            ],
            &["stays constant", "hardly varies", "is the same at all times"],
            &["drops in the cold", "sinks at low temperature", "is reduced by chilling"],
            &["doubles after exercise", "grows with physical training", "is raised by muscle work"],
        ],
    },
    Aspect {
        name: "loss",
        share: 60,
        sentences: &[
            "Mice without it {}.",
            "Knock-out animals {}.",
            "When it is missing, animals {}.",
        ],
        clauses: &["has knock-out animals that {}", "is known for mutants that {}"],
        keys: &["mutants that {}"],
        values: &[
            &["are blind", "cannot see", "lack eyesight"],
            &["grow very slowly", "remain small", "show stunted growth"],
            &["are resistant to obesity", "stay lean on a rich diet", "do not get fat"],
            &["develop tumours early", "get cancer at a young age", "form growths prematurely"],
            &["are infertile", "have no offspring", "are sterile"],
            &["look entirely normal", "show no visible defect", "cannot be told from siblings"],
            &["die before birth", "are lost as embryos", "do not survive gestation"],
            &["lose their balance", "walk unsteadily", "have a tumbling gait"],
        ],
    },
];

/// What is known about a pathway.
pub(super) static PATHWAY: [Aspect; 3] = [
    Aspect {
        name: "purpose",
        share: 95,
        sentences: &[
            "Taken together, these reactions {}.",
            "The steps of this cascade {}.",
            "In concert, its members {}.",
        ],
        clauses: &["has steps that {}", "consists of reactions that {}"],
        keys: &["reactions that {}"],
        values: &[
            &["supply energy", "deliver fuel to the cell", "yield usable energy"],
            &["remove toxic waste", "clear harmful by-products", "detoxify metabolites"],
            &["shape the embryo", "pattern early tissue", "organise the developing body"],
            &["fight intruders", "defend against microbes", "combat pathogens"],
            &["copy the genome", "duplicate DNA", "replicate chromosomes"],
            &["build membranes", "assemble lipid layers", "make new membrane"],
            &["control appetite", "steer hunger", "govern food intake"],
            &["close wounds", "seal injured tissue", "promote healing"],
        ],
    },
    Aspect {
        name: "start",
        share: 80,
        sentences: &[
            "It is set off by {}.",
            "The first step is caused by {}.",
            "Activation follows {}.",
        ],
        clauses: &["is set off by {}", "is activated by {}", "starts with {}"],
        keys: &["started by {}"],
        values: &[
            &["low sugar", "a lack of glucose", "falling glucose"],
            &["mechanical stretch", "physical pull", "tension on the cell"],
            &["ultraviolet light", "UV rays", "sunburn"],
            &["a growth factor", "a mitogen", "a proliferation signal"],
            &["cold", "a drop in temperature", "chilling"],
            &["foreign nucleic acid", "alien DNA or RNA", "genetic material of invaders"],
            &["calcium influx", "entering calcium", "a calcium wave"],
        ],
    },
    Aspect {
        name: "control",
        share: 70,
        sentences: &[
            "It is kept in check by {}.",
            "Negative control comes from {}.",
            "The flow is limited by {}.",
        ],
        clauses: &["is kept in check by {}", "is limited by {}", "is slowed down by {}"],
        keys: &["limited by {}"],
        values: &[
            &[
                "its own end product",
                "feedback from the final metabolite",
                "end product inhibition",
            ],
            &["a phosphatase", "removal of phosphate", "dephosphorylation"],
            &["scarce cofactors", "a shortage of cofactors", "lack of helper molecules"],
            &["a micro RNA", "short regulatory RNA", "a small non-coding transcript"],
            &["receptor recycling", "uptake of receptors", "internalised receptors"],
            &[
                "sequestration in the cytoplasm",
                "retention outside the nucleus",
                "cytoplasmic trapping",
            ],
        ],
    },
];

const FILLERS: [&str; 10] = [
    "Only a limited number of reports exist.",
    "The literature is still growing.",
    "Further work is under way.",
    "Several groups have described this independently.",
    "Nomenclature has changed over the years.",
    "Curated by hand from primary sources.",
    "Data are incomplete in part.",
    "A consensus statement was published recently.",
    "Estimates differ between registries.",
    "The entry was last revised in this release.",
];

/// Returns all facts as sentences in random order, each stated once or twice, with one or two
/// fillers.
fn sentences(aspects: &[Aspect], facts: &[u8], stream: &mut Stream) -> Vec<String> {
    let mut sentences = vec![stream.pick(&FILLERS).to_owned()];
    for (aspect, &value) in aspects.iter().zip(facts) {
        if value == NO_FACT {
            continue;
        }
        sentences.extend(aspect.state(value, 25, stream));
    }
    stream.shuffle(&mut sentences);
    sentences
}

/// Puts sentences into `n` fields of text, in order, as evenly as possible.
fn fields(details: &mut Map<String, Value>, keys: &[&str], sentences: &[String]) {
    let per_field = sentences.len().div_ceil(keys.len().max(1)).max(1);
    for (key, chunk) in keys.iter().zip(sentences.chunks(per_field)) {
        details.insert((*key).to_owned(), json!(chunk.join(" ")));
    }
}

/// Returns the details of a node; types without text get only their `source`.
pub(super) fn details(
    node_type: &str,
    name: &str,
    aliases: &[String],
    facts: &[u8],
    stream: &mut Stream,
) -> Map<String, Value> {
    let mut details = Map::new();
    let mut put = |key: &str, value: Value| {
        details.insert(key.to_owned(), value);
    };
    match node_type {
        "disease" => {
            put("source", json!("MONDO"));
            put("orphanet_prevalence", json!(stream.pick(&PREVALENCE)));
            let text = sentences(&DISEASE, facts, stream);
            fields(&mut details, &["mondo_definition", "umls_description", "mayo_symptoms"], &text);
        }
        "drug" => {
            put("source", json!("DrugBank"));
            put("state", json!(stream.pick(&["solid", "liquid", "gas"])));
            put("synonyms", json!(aliases));
            let text = sentences(&DRUG, facts, stream);
            fields(
                &mut details,
                &["description", "mechanism_of_action", "pharmacodynamics"],
                &text,
            );
        }
        "gene/protein" => {
            put("source", json!("NCBI"));
            put("type_of_gene", json!("protein-coding"));
            put("alias", json!(aliases));
            let start = 10_000 + stream.below(200_000_000);
            let position = json!({
                "chr": format!("{}", 1 + stream.below(22)),
                "start": start,
                "end": start + 500 + stream.below(90_000),
                "strand": if stream.percent(50) { 1 } else { -1 },
            });
            put("genomic_pos", position);
            let text = sentences(&GENE, facts, stream);
            let cut = text.len().div_ceil(2);
            put("summary", json!(text[..cut].join(" ")));
            let generif: Vec<Value> =
                text[cut..].iter().map(|text| json!({ "text": text })).collect();
            put("generif", json!(generif));
        }
        "pathway" => {
            put("source", json!("REACTOME"));
            put("displayName", json!([name]));
            put("stId", json!(format!("R-HSA-{}", names::digits(stream, 7))));
            put("summation", json!(sentences(&PATHWAY, facts, stream)));
        }
        "molecular_function" | "biological_process" | "cellular_component" => {
            put("source", json!("GO"))
        }
        "anatomy" => put("source", json!("UBERON")),
        "effect/phenotype" => put("source", json!("HPO")),
        _ => put("source", json!("CTD")),
    }
    details
}

const PREVALENCE: [&str; 5] =
    ["<1 / 1 000 000", "1-9 / 1 000 000", "1-9 / 100 000", "1-5 / 10 000", "6-9 / 10 000"];
