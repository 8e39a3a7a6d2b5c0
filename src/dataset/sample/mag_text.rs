//! Wording of papers: the aspects of a paper and the composition of its fields.
//!
//! It must not know authors, institutions or fields of study: these are relations and never occur
//! in a paper's text.

use serde_json::{Map, Value, json};

use crate::dataset::sample::facts::{Aspect, NO_FACT};
use crate::dataset::sample::names;
use crate::dataset::sample::random::Stream;

/// Column of the problem; it also stands in the title.
pub(super) const PROBLEM: usize = 0;
/// Column of the method; it often stands in the title.
pub(super) const METHOD: usize = 1;
const YEAR: usize = 6;
const VENUE: usize = 7;

/// What is known about a paper.
pub(super) static PAPER: [Aspect; 8] = [
    Aspect {
        name: "problem",
        share: 100,
        sentences: &[
            "We study {}.",
            "This work addresses {}.",
            "The question of {} has drawn much attention.",
        ],
        clauses: &["studies {}", "deals with {}", "is concerned with {}"],
        keys: &["{}"],
        values: &[
            &["river flooding", "flood forecasting", "overflow of waterways"],
            &["crop yield", "agricultural output", "harvest volumes"],
            &["bone fractures", "broken bones", "skeletal breakage"],
            &["urban traffic", "city congestion", "vehicle jams in towns"],
            &["bird migration", "seasonal flight of birds", "avian journeys"],
            &["battery ageing", "wear of lithium cells", "capacity loss in accumulators"],
            &["speech recognition", "transcribing spoken words", "voice to text conversion"],
            &["concrete cracking", "cracks in building slabs", "failure of cement structures"],
            &["sleep disorders", "disturbed nights", "insomnia and related complaints"],
            &["star formation", "birth of suns", "stellar nurseries"],
            &["bank failures", "insolvency of lenders", "collapse of credit houses"],
            &["protein folding", "shape of amino chains", "three-dimensional form of peptides"],
            &["reading difficulties", "dyslexia in schools", "trouble with learning to read"],
            &["coral decline", "bleached reefs", "loss of reef life"],
            &["network intrusion", "computer break-ins", "attacks on servers"],
            &["wine fermentation", "yeast activity in must", "alcohol formation from grapes"],
            &["tunnel ventilation", "air flow underground", "fresh air in shafts"],
            &["voter turnout", "participation in elections", "share of citizens who cast ballots"],
        ],
    },
    Aspect {
        name: "method",
        share: 90,
        sentences: &[
            "Our approach relies on {}.",
            "The analysis is carried out with {}.",
            "We propose the use of {}.",
        ],
        clauses: &["relies on {}", "applies {}", "uses {}"],
        keys: &["{}", "by {}"],
        values: &[
            &["deep neural networks", "multi-layer neural models", "deep learning"],
            &["Bayesian inference", "posterior estimation", "probabilistic priors"],
            &["finite elements", "mesh based simulation", "a finite element solver"],
            &[
                "randomised trials",
                "controlled experiments with random assignment",
                "a randomised design",
            ],
            &["semi-structured interviews", "qualitative conversations", "open interviews"],
            &["genetic algorithms", "evolutionary search", "mutation and selection"],
            &["support vector machines", "maximum margin classifiers", "kernel machines"],
            &["mass spectrometry", "ion mass measurement", "spectrometric weighing of ions"],
            &["linear programming", "simplex optimisation", "linear optimisation"],
            &["agent based modelling", "simulated individual actors", "multi-agent simulation"],
            &["wavelet transforms", "multi-resolution signal decomposition", "wavelet analysis"],
            &["game theory", "strategic equilibrium models", "Nash equilibria"],
            &["electron microscopy", "imaging by electron beams", "scanning electron images"],
            &[
                "literature review",
                "systematic survey of earlier work",
                "meta-analysis of publications",
            ],
            &["Kalman filtering", "recursive state estimation", "optimal state filters"],
            &["decision trees", "tree ensembles", "random forests"],
        ],
    },
    Aspect {
        name: "data",
        share: 75,
        sentences: &[
            "The evaluation draws on {}.",
            "Evidence comes from {}.",
            "As data we take {}.",
        ],
        clauses: &["draws on {}", "is based on {}", "takes its data from {}"],
        keys: &["{}", "using {}"],
        values: &[
            &["satellite images", "pictures taken from orbit", "remote sensing scenes"],
            &["hospital records", "clinical patient files", "medical charts"],
            &["household surveys", "questionnaires filled in by families", "a poll of homes"],
            &["sensor logs", "recordings of measuring devices", "telemetry streams"],
            &["newspaper archives", "historical press articles", "old printed news"],
            &["social media posts", "tweets and comments", "messages of online users"],
            &["laboratory mice", "rodent experiments", "murine subjects"],
            &["tax registers", "fiscal records", "revenue office filings"],
            &["ocean buoys", "floating sea stations", "drifting marine gauges"],
            &["video footage", "camera films", "moving pictures from cameras"],
            &["synthetic benchmarks", "artificially generated instances", "simulated test sets"],
            &["school registers", "pupil files", "enrolment lists"],
            &["soil samples", "ground cores", "probes of earth"],
            &["telephone calls", "call detail traces", "phone metadata"],
        ],
    },
    Aspect {
        name: "finding",
        share: 75,
        sentences: &["The results {}.", "Our experiments {}.", "All in all, the outcomes {}."],
        clauses: &[
            "has results that {}",
            "reports outcomes that {}",
            "presents experiments that {}",
        ],
        keys: &["results that {}"],
        values: &[
            &["halve the computing time", "cut run time by two", "show a twofold speed-up"],
            &[
                "contradict the accepted theory",
                "challenge the prevailing view",
                "refute a common belief",
            ],
            &[
                "confirm earlier observations",
                "replicate previous evidence",
                "support what was known before",
            ],
            &[
                "reveal a strong gender gap",
                "show clear differences between men and women",
                "point to sex disparities",
            ],
            &[
                "improve accuracy markedly",
                "raise precision by a wide margin",
                "reduce the error rate substantially",
            ],
            &["lower the costs", "save a lot of money", "make the process cheaper"],
            &["show no significant effect", "find nothing beyond chance", "yield a null outcome"],
            &[
                "expose a seasonal rhythm",
                "uncover a yearly cycle",
                "display summer and winter patterns",
            ],
            &[
                "scale to millions of items",
                "remain feasible for very large inputs",
                "hold at massive size",
            ],
            &["reveal a threshold effect", "show a tipping point", "uncover an abrupt transition"],
            &["save energy", "cut power consumption", "need less electricity"],
            &[
                "generalise across countries",
                "carry over to other nations",
                "transfer internationally",
            ],
        ],
    },
    Aspect {
        name: "limitation",
        share: 50,
        sentences: &["A limitation is {}.", "The study suffers from {}.", "We discuss {} openly."],
        clauses: &["admits {}", "is limited by {}", "acknowledges {}"],
        keys: &["limited by {}"],
        values: &[
            &["a small number of participants", "the modest sample size", "too few subjects"],
            &["missing observations", "gaps in the records", "incomplete measurements"],
            &["a single study site", "one location only", "restriction to one place"],
            &[
                "self-reported answers",
                "subjective statements of respondents",
                "reliance on what people say",
            ],
            &["the short observation period", "only a few weeks of follow-up", "a brief time span"],
            &["strong simplifying assumptions", "idealised conditions", "a rather crude model"],
            &["high memory demands", "heavy use of main storage", "a large memory footprint"],
            &["measurement noise", "inaccurate instruments", "errors of the gauges"],
        ],
    },
    Aspect {
        name: "contribution",
        share: 60,
        sentences: &["We release {}.", "The main contribution is {}.", "Beyond that, we offer {}."],
        clauses: &["offers {}", "contributes {}", "provides {}"],
        keys: &["{}"],
        values: &[
            &["open source software", "freely available code", "a public program library"],
            &["a new theoretical bound", "a tighter mathematical limit", "a proof of optimality"],
            &[
                "guidelines for practitioners",
                "practical advice for professionals",
                "recommendations for daily work",
            ],
            &["an annotated corpus", "a labelled collection", "hand-tagged material"],
            &["a low-cost prototype", "a cheap working device", "an inexpensive demonstrator"],
            &["policy recommendations", "advice to lawmakers", "proposals for governments"],
            &["a unified taxonomy", "a common classification scheme", "a shared set of categories"],
            &["an early warning system", "an alarm tool", "a method to alert in advance"],
        ],
    },
    Aspect {
        name: "year",
        share: 100,
        sentences: &[""],
        clauses: &["was published in {}", "appeared in {}", "dates from {}"],
        keys: &["{}", "published {}"],
        values: &[
            &["2003"],
            &["2004"],
            &["2005"],
            &["2006"],
            &["2007"],
            &["2008"],
            &["2009"],
            &["2010"],
            &["2011"],
            &["2012"],
            &["2013"],
            &["2014"],
            &["2015"],
            &["2016"],
            &["2017"],
            &["2018"],
        ],
    },
    Aspect {
        name: "venue",
        share: 90,
        sentences: &[""],
        clauses: &["appeared in {}", "was printed in {}", "came out in {}"],
        keys: &["in {}"],
        values: &[
            &["Annals of Measured Progress"],
            &["Journal of Slow Systems"],
            &["Transactions on Everyday Science"],
            &["Northern Review of Methods"],
            &["Quarterly of Applied Curiosity"],
            &["Letters on Complex Matters"],
            &["Proceedings of the Lakeside Meeting"],
            &["Bulletin of Open Questions"],
            &["Archive of Practical Theory"],
            &["Symposium on Useful Models"],
            &["World Notes on Inquiry"],
            &["Harbour Conference on Evidence"],
            &["Frontiers of Careful Work"],
            &["Journal of Plain Results"],
        ],
    },
];

const OPENERS: [&str; 8] = [
    "Interest in the topic has grown steadily.",
    "Despite decades of effort, open issues remain.",
    "Recent progress makes a fresh look worthwhile.",
    "Existing solutions are often hard to compare.",
    "The matter is of both practical and theoretical weight.",
    "Little is known about the underlying causes.",
    "Several schools of thought disagree here.",
    "Standard treatments leave room for doubt.",
];

const CLOSERS: [&str; 6] = [
    "Directions for further inquiry are outlined.",
    "Implications are considered at the end.",
    "An appendix gives all details.",
    "We close with remarks on future work.",
    "Comparisons with related efforts round off the text.",
    "The discussion places this in a wider context.",
];

/// Returns the details of a paper: abstract, date, year, venue and counts. Every fact is stated
/// once or twice.
pub(super) fn details(
    facts: &[u8],
    n_references: usize,
    stream: &mut Stream,
) -> Map<String, Value> {
    let mut sentences = vec![stream.pick(&OPENERS).to_owned()];
    for (column, (aspect, &value)) in PAPER.iter().zip(facts).enumerate() {
        if value == NO_FACT || column == YEAR || column == VENUE {
            continue;
        }
        sentences.extend(aspect.state(value, 20, stream));
    }
    stream.shuffle(&mut sentences[1..]);
    sentences.push(stream.pick(&CLOSERS).to_owned());
    let name_of = |column: usize| -> &str {
        let value = facts.get(column).copied().unwrap_or(NO_FACT);
        let synonyms = PAPER[column].values.get(value as usize).copied().unwrap_or_default();
        synonyms.first().copied().unwrap_or_default()
    };
    let year = name_of(YEAR);
    let mut details = Map::new();
    details.insert("abstract".to_owned(), json!(sentences.join(" ")));
    let date = format!("{year}-{:02}-{:02}", 1 + stream.below(12), 1 + stream.below(28));
    details.insert("Date".to_owned(), json!(date));
    details.insert("Year".to_owned(), json!(year.parse::<u32>().unwrap_or_default()));
    if !name_of(VENUE).is_empty() {
        details.insert("OriginalVenue".to_owned(), json!(name_of(VENUE)));
    }
    details.insert("ReferenceCount".to_owned(), json!(n_references));
    details
}

/// Returns a title that names the problem and often the method.
pub(super) fn title(facts: &[u8], stream: &mut Stream) -> String {
    let problem = PAPER[PROBLEM].say(&["{}"], facts.get(PROBLEM).copied().unwrap_or(0), stream);
    let method = facts.get(METHOD).copied().unwrap_or(NO_FACT);
    let scope = stream.pick(&SCOPES);
    let place = names::place(stream);
    let text = if method == NO_FACT || stream.percent(40) {
        match stream.below(4) {
            0 => format!("{scope} on {problem}: the case of {place}"),
            1 => format!("{problem} revisited: {scope} from {place}"),
            2 => format!("towards an understanding of {problem} in {place}"),
            _ => format!("{scope} on {problem} around {place}"),
        }
    } else {
        let method = PAPER[METHOD].say(&["{}"], method, stream);
        match stream.below(4) {
            0 => format!("{method} for {problem} in {place}"),
            1 => format!("{problem} in {place} by means of {method}"),
            2 => format!("{scope} on {problem} with {method} at {place}"),
            _ => format!("from {method} to {problem}: {scope} in {place}"),
        }
    };
    names::capitalised(&text)
}

const SCOPES: [&str; 8] = [
    "a comparative study",
    "first lessons",
    "new evidence",
    "an empirical note",
    "a long-term view",
    "some remarks",
    "a critical account",
    "a field report",
];
