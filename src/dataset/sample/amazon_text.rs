//! Wording of products: the aspects of a product and the composition of its fields.
//!
//! It must not know brands, categories or colours: these are relations and never occur in a
//! product's text.

use serde_json::{Map, Value, json};

use crate::dataset::sample::facts::{Aspect, NO_FACT};
use crate::dataset::sample::names;
use crate::dataset::sample::random::Stream;

/// Column of the kind of product; it also stands in the title.
pub(super) const KIND: usize = 0;

/// What is known about a product.
pub(super) static PRODUCT: [Aspect; 9] = [
    Aspect {
        name: "use",
        share: 100,
        sentences: &[
            "Dependable {} for regular outings.",
            "Our {} design was drawn from the ground up.",
            "In the box you find the {} ready to go.",
        ],
        clauses: &["is some kind of {}", "counts as {}", "serves as {}"],
        keys: &["{}"],
        values: &[
            &["camping lantern", "tent light", "campsite lamp"],
            &["hiking backpack", "trekking rucksack", "trail pack"],
            &["water bottle", "drinking flask", "hydration bottle"],
            &["sleeping bag", "sleep sack", "camping bedroll"],
            &["yoga mat", "exercise mat", "stretching pad"],
            &["jump rope", "skipping rope", "speed rope"],
            &["kettlebell", "handle weight", "cast training weight"],
            &["folding knife", "pocket blade", "clasp knife"],
            &["fishing reel", "spinning reel", "casting reel"],
            &["bike pump", "bicycle inflator", "cycle tyre pump"],
            &["ski goggles", "snow eyewear", "slope goggles"],
            &["dart set", "throwing darts", "pub darts"],
            &["tennis racket", "court racquet", "tennis paddle"],
            &["camp stove", "portable burner", "backpacking cooker"],
            &["dry bag", "waterproof sack", "roll top pouch"],
            &["climbing harness", "rock harness", "belay harness"],
            &["running belt", "jogging waist pack", "runner pouch"],
            &["golf glove", "swing glove", "golfer hand grip"],
            &["swim goggles", "pool goggles", "lap eyewear"],
            &["trekking poles", "hiking sticks", "walking poles"],
            &["archery target", "arrow target block", "bow practice butt"],
            &["resistance band", "workout elastic", "stretch tube"],
            &["headlamp", "head torch", "forehead flashlight"],
            &["hammock", "hanging bed", "tree swing bed"],
            &["cooler box", "ice chest", "insulated picnic box"],
            &["bike helmet", "cycling helmet", "rider head shell"],
            &["rain poncho", "wet weather cape", "hooded rain cover"],
            &["binoculars", "field glasses", "spotting glasses"],
            &["boxing gloves", "sparring mitts", "punching gloves"],
            &["skateboard deck", "street board", "skating plank"],
        ],
    },
    Aspect {
        name: "material",
        share: 75,
        sentences: &[
            "The main part is made of {}.",
            "Built from {} throughout.",
            "Its body consists of {}.",
        ],
        clauses: &["is made of {}", "is built from {}", "uses {} as its material"],
        keys: &["{}", "made of {}"],
        values: &[
            &["stainless steel", "rustproof steel", "inox metal"],
            &["aluminium alloy", "light alloy", "anodised aluminium"],
            &["bamboo", "natural cane wood", "pressed bamboo"],
            &["carbon fibre", "carbon composite", "woven carbon"],
            &["ripstop nylon", "tear resistant nylon", "reinforced polyamide"],
            &["recycled plastic", "reclaimed polymer", "plastic from old bottles"],
            &["genuine leather", "full grain hide", "real leather"],
            &["organic cotton", "untreated cotton cloth", "pesticide free cotton"],
            &["silicone rubber", "food safe silicone", "soft silicone"],
            &["merino wool", "fine sheep wool", "soft merino"],
            &["titanium", "titanium metal", "aerospace titanium"],
            &["tempered glass", "hardened glass", "toughened glass"],
            &["closed cell foam", "dense foam", "EVA foam"],
            &["cork", "natural cork", "cork bark"],
        ],
    },
    Aspect {
        name: "durability",
        share: 65,
        sentences: &["It {}.", "Owners report that it {}.", "In our tests it {}."],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &[
                "survives drops on hard ground",
                "shrugs off falls and knocks",
                "takes hard impacts without breaking",
            ],
            &[
                "lasts for many years",
                "is still fine after a decade",
                "holds up season after season",
            ],
            &["keeps working in freezing weather", "tolerates deep frost", "performs below zero"],
            &[
                "stays watertight when submerged",
                "can be dunked without leaking",
                "is fully waterproof",
            ],
            &[
                "resists fading in strong sun",
                "does not bleach under ultraviolet light",
                "is sunproof",
            ],
            &[
                "never rusts near salt water",
                "copes with the sea without corroding",
                "resists marine corrosion",
            ],
            &["withstands great heat", "is heat resistant", "does not melt near a fire"],
            &["resists scratches", "keeps a flawless surface", "is hard to scuff"],
            &["does not tear on thorns", "is puncture proof", "cannot be pierced by sharp stones"],
            &[
                "keeps its shape under heavy loads",
                "bears a lot of weight",
                "does not sag when fully loaded",
            ],
        ],
    },
    Aspect {
        name: "audience",
        share: 65,
        sentences: &["Intended for {}.", "A favourite among {}.", "Sized and tuned for {}."],
        clauses: &["suits {}", "is right for {}", "is meant for {}"],
        keys: &["for {}"],
        values: &[
            &["small children", "kids under eight", "toddlers and young kids"],
            &["teenagers", "high school kids", "adolescents"],
            &["complete beginners", "people who just started", "novices"],
            &["professionals", "seasoned experts", "competitive athletes"],
            &["older adults", "seniors", "retired people"],
            &["left-handed people", "southpaws", "lefties"],
            &["tall people", "users above six feet", "anyone with long limbs"],
            &["petite women", "women with a small frame", "slim ladies"],
            &["large families", "big households", "parents with several kids"],
            &["coaches and teams", "club trainers", "whole squads"],
        ],
    },
    Aspect {
        name: "place",
        share: 70,
        sentences: &["Works best {}.", "Most buyers take it along {}.", "At home {}."],
        clauses: &["can be used {}", "is good {}", "proves itself {}"],
        keys: &["{}"],
        values: &[
            &["on multi-day mountain tours", "during long alpine treks", "high up in the peaks"],
            &["in the back garden", "behind the house on the lawn", "in the yard"],
            &["at the beach", "on sandy shores", "by the seaside"],
            &["on river trips", "while paddling a canoe", "in a kayak"],
            &["in a small apartment", "in tight indoor spaces", "inside a little flat"],
            &["on the daily commute", "on the way to the office", "between home and work"],
            &["at music festivals", "during open air concerts", "at crowded weekend events"],
            &["on winter hunts", "while stalking game in the cold season", "in a snowy hide"],
            &["in the desert", "across dry and dusty plains", "on arid ground"],
            &["in a professional gym", "in a commercial fitness studio", "on the training floor"],
            &["on long car journeys", "during road trips", "on the back seat for hours"],
            &["in dense jungle", "in humid rainforest", "under tropical canopy"],
            &["on a sailing boat", "aboard a yacht", "on deck at sea"],
            &["in total darkness", "on moonless nights", "when there is no light at all"],
        ],
    },
    Aspect {
        name: "portability",
        share: 55,
        sentences: &["It {}.", "What surprised many: it {}.", "On the move it {}."],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &["folds flat in seconds", "collapses quickly to a thin shape", "packs down flat"],
            &["weighs next to nothing", "is extremely lightweight", "adds hardly any grams"],
            &[
                "clips onto a belt",
                "hangs from the waist by a hook",
                "attaches to trousers with a clip",
            ],
            &["fits in a jacket pocket", "is pocket sized", "disappears inside a coat"],
            &[
                "rolls on built-in wheels",
                "can be pulled like a trolley",
                "has castors for easy moving",
            ],
            &[
                "has a padded shoulder strap",
                "is carried on a soft strap",
                "hangs comfortably over the shoulder",
            ],
            &[
                "comes apart into three pieces",
                "can be dismantled for transport",
                "disassembles without tools",
            ],
            &["passes as cabin luggage", "is allowed on planes", "meets airline carry-on rules"],
        ],
    },
    Aspect {
        name: "cleaning",
        share: 50,
        sentences: &["For cleaning, it {}.", "After use it {}.", "As for care: it {}."],
        clauses: &["{}"],
        keys: &["one that {}"],
        values: &[
            &["goes straight into the dishwasher", "is dishwasher safe", "survives the dish cycle"],
            &["can be machine washed", "goes in the laundry", "is fine in a washing machine"],
            &[
                "wipes clean with a damp cloth",
                "needs only a quick wipe",
                "is cleaned by a moist rag",
            ],
            &[
                "dries within minutes",
                "sheds water and is dry at once",
                "has quick drying surfaces",
            ],
            &["repels dirt and stains", "stays spotless by itself", "does not pick up grime"],
            &["does not hold odours", "stays free of bad smells", "never smells musty"],
            &["needs no oiling", "runs without lubrication", "works with zero maintenance"],
            &[
                "has a removable liner",
                "comes with an inner layer to take out",
                "lets you detach the lining",
            ],
        ],
    },
    Aspect {
        name: "drawback",
        share: 45,
        sentences: &["One weakness: it {}.", "Be aware that it {}.", "Some complain that it {}."],
        clauses: &["{} though I do not mind", "admittedly {}", "reportedly {}"],
        keys: &["even if it {}"],
        values: &[
            &["runs small", "turns out tighter than the label says", "is undersized"],
            &["squeaks at first", "makes a creaking noise when new", "is noisy in the first days"],
            &[
                "has a strong chemical smell on opening",
                "reeks of solvent out of the box",
                "stinks when unwrapped",
            ],
            &["arrives without instructions", "lacks a manual", "ships with no guide"],
            &["takes long to assemble", "needs an hour of setting up", "is slow to put together"],
            &["slips when wet", "loses grip in the rain", "gets slippery once damp"],
            &["feels stiff for the first weeks", "must be broken in", "starts out rigid"],
            &["costs more than rivals", "is pricey", "is on the expensive side"],
            &["leaves marks on the skin", "chafes after an hour", "rubs uncomfortably"],
            &["has a weak zipper", "comes with a flimsy zip", "suffers from a poor fastener"],
        ],
    },
    Aspect {
        name: "package",
        share: 55,
        sentences: &["The box also holds {}.", "It is delivered with {}.", "You also receive {}."],
        clauses: &["comes with {}", "includes {}", "ships together with {}"],
        keys: &["with {}", "incl. {}"],
        values: &[
            &["a spare battery", "an extra power cell", "a second rechargeable battery"],
            &["a carrying case", "a storage pouch", "a travel cover"],
            &["a repair kit", "patches and glue", "a mending set"],
            &["a lifetime warranty", "an unlimited guarantee", "a warranty without end date"],
            &["a printed training plan", "an exercise booklet", "a workout guide on paper"],
            &["a solar charger", "a sun powered charging panel", "a photovoltaic panel"],
            &["two sizes of straps", "short and long straps", "exchangeable straps"],
            &["a safety whistle", "an emergency whistle", "a signal pipe"],
            &["a phone holder", "a smartphone mount", "a bracket for the mobile"],
            &["a cleaning brush", "a small scrubber", "a bristle tool for care"],
        ],
    },
];

const OPENERS: [&str; 8] = [
    "I bought this in spring.",
    "Second one I own.",
    "Got it as a present.",
    "Used it for about two months now.",
    "My partner was sceptical.",
    "Ordered on a whim.",
    "Arrived sooner than promised.",
    "Compared a handful before choosing.",
];

const SUMMARIES: [&str; 10] = [
    "Does the job",
    "Better than expected",
    "Good value",
    "Mixed feelings",
    "Very happy",
    "Would buy again",
    "Solid choice",
    "Not perfect",
    "Exactly as shown",
    "Honest opinion",
];

const FILLERS: [&str; 12] = [
    "Please check the size chart before ordering.",
    "Our support team answers within one working day.",
    "The picture may differ slightly from the real article.",
    "Inspected by hand before it leaves the warehouse.",
    "A classic that needs no introduction.",
    "Thought through to the last detail.",
    "New generation with improved stitching and seams.",
    "Simple, honest and without needless extras.",
    "Everything about it says weekend.",
    "We listened to thousands of customers.",
    "Makes a fine gift for any occasion.",
    "Sold as a single unit.",
];

/// Returns the details of a product: description, features, reviews, questions and answers, and
/// plain numbers. Every fact is stated at least once.
pub(super) fn details(facts: &[u8], stream: &mut Stream) -> Map<String, Value> {
    let mut description = vec![stream.pick(&FILLERS).to_owned()];
    let mut features = Vec::new();
    let mut reviews: Vec<Vec<String>> = vec![Vec::new(); 1 + stream.below(3)];
    let mut questions = Vec::new();
    for (aspect, &value) in PRODUCT.iter().zip(facts) {
        if value == NO_FACT {
            continue;
        }
        for sentence in aspect.state(value, 35, stream) {
            match stream.below(10) {
                0..=3 => description.push(sentence),
                4..=6 => features.push(sentence),
                7..=8 => {
                    let which = stream.below(reviews.len());
                    reviews[which].push(sentence);
                }
                _ => questions.push(json!({
                    "question": format!("What can you tell me about the {}?", aspect.name),
                    "answer": sentence,
                })),
            }
        }
    }
    stream.shuffle(&mut features);
    if stream.percent(50) {
        features.push(stream.pick(&FILLERS).to_owned());
    }
    let reviews: Vec<Value> = reviews
        .into_iter()
        .map(|sentences| {
            let text = format!("{} {}", stream.pick(&OPENERS), sentences.join(" "));
            json!({
                "reviewerID": format!("R{:08}", stream.below(100_000_000)),
                "summary": stream.pick(&SUMMARIES),
                "reviewText": text.trim_end(),
                "vote": stream.skewed(60),
                "overall": 5 - stream.skewed(5),
                "verified": stream.percent(80),
            })
        })
        .collect();
    let mut details = Map::new();
    details.insert("asin".to_owned(), json!(names::product_code(stream)));
    let cents = 500 + stream.skewed(20_000);
    details.insert("price".to_owned(), json!(format!("${}.{:02}", cents / 100, cents % 100)));
    details.insert("description".to_owned(), json!(description));
    details.insert("feature".to_owned(), json!(features));
    details.insert("review".to_owned(), json!(reviews));
    details.insert("qa".to_owned(), json!(questions));
    details
}
