#!/usr/bin/env python3
"""Write tests/data/ask/wordings.tsv: questions over many nodes as people word them, with their answers.

    agent data sample amazon --scale 0.0008 --to DIR/amazon
    agent data sample mag --scale 0.0008 --to DIR/mag
    agent data sample prime --scale 0.01 --to DIR/prime
    python3 scripts/ask-wordings.py DIR > tests/data/ask/wordings.tsv
    python3 scripts/ask-wordings.py DIR further > tests/data/ask/further.tsv
    python3 scripts/ask-wordings.py DIR third > tests/data/ask/third.tsv

Every answer is computed here from the files of the sample, with NumPy and SciPy, and without anything
of the program. The first 100 questions were written before any was asked, the further 50 when the
program had been mended by the first and before any of them was asked, and the third 50 likewise. A line is the sample, the
kind, the question and the answer as JSON: {"number": x}, {"names": [...]}, {"truth": b}, with
"statistic" where a test stands behind it, or {"groups": {name: x}}.
"""

import collections
import json
import sys

import numpy as np
from scipy import stats


class Base:
    def __init__(self, directory):
        self.nodes, self.out, self.into = {}, {}, {}
        with open(f"{directory}/nodes.jsonl") as lines:
            for line in lines:
                node = json.loads(line)
                self.nodes[node["id"]] = node
        with open(f"{directory}/edges.tsv") as lines:
            next(lines)
            for line in lines:
                source, relation, target = line.rstrip("\n").split("\t")
                source, target = int(source), int(target)
                self.out.setdefault(relation, {}).setdefault(source, set()).add(target)
                self.into.setdefault(relation, {}).setdefault(target, set()).add(source)

    def of(self, kind):
        return [id for id, node in self.nodes.items() if node["type"] == kind]

    def name(self, id):
        return self.nodes[id]["name"]

    def named(self, name):
        found = [id for id, node in self.nodes.items() if node["name"] == name]
        assert len(found) == 1, (name, found)
        return found[0]

    def field(self, id, key):
        return self.nodes[id].get("details", {}).get(key)

    def to(self, relation, id, kind=None):
        return {o for o in self.out[relation].get(id, ()) if kind in (None, self.nodes[o]["type"])}

    def at(self, relation, id, kind=None):
        return {o for o in self.into[relation].get(id, ()) if kind in (None, self.nodes[o]["type"])}


def number(x):
    return {"number": float(x)}


def truth(x):
    return {"truth": bool(x)}


def names(values, best, n=1):
    """Those with the n greatest (max) or least (min) values, ties included."""
    order = sorted(values.values(), reverse=best is max)
    last = order[min(n, len(order)) - 1]
    inside = (lambda x: x >= last) if best is max else (lambda x: x <= last)
    return {"names": sorted(k for k, x in values.items() if inside(x))}


def tested(found, holds):
    return {"truth": bool(holds(found)), "statistic": float(found.statistic)}


def normal(x):
    return tested(stats.shapiro(x), lambda t: t.pvalue >= 0.05)


def related(x, y):
    return tested(stats.pearsonr(x, y), lambda t: t.pvalue < 0.05)


def by_ranks(x, y):
    return tested(stats.spearmanr(x, y), lambda t: t.pvalue < 0.05)


def grows(x, y):
    return tested(stats.pearsonr(x, y), lambda t: t.pvalue < 0.05 and t.statistic > 0)


def same_spread(*groups):
    return tested(stats.levene(*groups, center="median"), lambda t: t.pvalue >= 0.05)


def other_spread(*groups):
    return tested(stats.levene(*groups, center="median"), lambda t: t.pvalue < 0.05)


def depends(*groups):
    return tested(stats.kruskal(*groups), lambda t: t.pvalue < 0.05)


def grouped(pairs):
    groups = collections.defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def large(groups, least=2):
    return [v for _, v in sorted(groups.items()) if len(v) >= least]


def amazon(base, which):
    products = base.of("product")
    price = {p: float(base.field(p, "price").lstrip("$").replace(",", "")) for p in products}
    many = {r: {p: len(base.to(r, p)) for p in products} for r in base.out}
    linked = {"brand": "has_brand", "category": "has_category", "color": "has_color"}

    def by(kind):
        return {o: sorted(base.at(linked[kind], o)) for o in base.of(kind)}

    brands, categories, colors = by("brand"), by("category"), by("color")
    everything = {base.name(o): ps for group in (brands, categories, colors) for o, ps in group.items()}
    assert len(everything) == len(brands) + len(categories) + len(colors)

    def P(name):
        return everything[name]

    def prices(name):
        return [price[p] for p in P(name)]

    def mean(ps):
        return np.mean([price[p] for p in ps])

    def sizes(group):
        return {base.name(o): len(ps) for o, ps in group.items()}

    def means(group):
        return {base.name(o): mean(ps) for o, ps in group.items() if ps}

    def without(name):
        return [p for p in products if p not in set(P(name))]

    def named(ps):
        return {base.name(p): price[p] for p in ps}

    def pairs(group):
        return [(o, price[p]) for o, ps in group.items() for p in ps]

    one = {p: (min(base.to("has_brand", p), default=None), base.to("has_color", p)) for p in products}
    bc = [(b, c) for b, cs in one.values() if b is not None for c in cs]
    rows, cols = sorted({b for b, _ in bc}), sorted({c for _, c in bc})
    counts = np.zeros((len(rows), len(cols)))
    for b, c in bc:
        counts[rows.index(b), cols.index(c)] += 1
    chi = stats.chi2_contingency(counts, correction=False)
    if which == "third":
        return [
            ("aggregation", "I'd like to know how many Pine Gate products we stock.", number(len(P("Pine Gate")))),
            ("aggregation", "What's the price tag of an average fencing tools product?", number(np.mean(prices("fencing tools")))),
            ("aggregation", "How many of our products are sold for less than 15 dollars?", number(sum(x < 15 for x in price.values()))),
            ("aggregation", "How many products are there in each color?", {"groups": {k: v for k, v in sizes(colors).items() if v}}),
            ("aggregation", "How many colours does a product have on average?", number(np.mean(list(many["has_color"].values())))),
            ("aggregation", "What would it cost to buy every product of Quest Team once?", number(sum(prices("Quest Team")))),
            ("aggregation", "How many Libugri products are neither above 80 dollars nor below 20 dollars?", number(sum(20 <= x <= 80 for x in prices("Libugri")))),
            ("superlative", "Which brand is the cheapest on average?", names(means(brands), min)),
            ("superlative", "Rank the top 4 categories by average price.", names(means(categories), max, 4)),
            ("superlative", "Which pastel rust product has the highest price tag?", names(named(P("pastel rust")), max)),
            ("intercomparison", "Is there more choice in golfing equipment than in hockey accessories?", truth(len(P("golfing equipment")) > len(P("hockey accessories")))),
            ("intercomparison", "Do coral pink products cost more on average than royal silver ones?", truth(np.mean(prices("coral pink")) > np.mean(prices("royal silver")))),
            ("distribution", "Would you call the prices of Quest Team normally distributed?", normal(prices("Quest Team"))),
            ("descriptive", "Is a higher price associated with more also_buy links?", by_ranks([price[p] for p in products], [many["also_buy"][p] for p in products])),
            ("variance", "Are the prices in parkour coaching more scattered than those in fitness shelter?", truth(stats.levene(prices("parkour coaching"), prices("fitness shelter"), center="median").pvalue < 0.05 and np.var(prices("parkour coaching")) > np.var(prices("fitness shelter")))),
            ("descriptive", "Is price linked to brand?", depends(*large(grouped(pairs(brands)), 1))),
            ("hypothetical", "If we stopped selling Pairobro, how many products would we have?", number(len(without("Pairobro")))),
            ("hypothetical", "After a 10 percent discount on everything, how many products would cost under 20 dollars?", number(sum(x * 0.9 < 20 for x in price.values()))),
        ]
    if which == "further":
        return [
            ("aggregation", "What's the total number of items in fitness shelter?", number(len(P("fitness shelter")))),
            ("aggregation", "On average, how much do royal silver items go for?", number(np.mean(prices("royal silver")))),
            ("aggregation", "Give the standard deviation of prices in leisure games storage.", number(np.std(prices("leisure games storage"), ddof=1))),
            ("aggregation", "How many products come without a color?", number(sum(not n for n in many["has_color"].values()))),
            ("aggregation", "What percentage of Bekrifil products cost at least 50 dollars?", number(sum(x >= 50 for x in prices("Bekrifil")) / len(P("Bekrifil")))),
            ("aggregation", "Count the products per brand.", {"groups": {k: v for k, v in sizes(brands).items() if v}}),
            ("superlative", "Which Quest Team product is the most expensive?", names(named(P("Quest Team")), max)),
            ("superlative", "What brand has the highest median price?", names({base.name(o): float(np.median([price[p] for p in ps])) for o, ps in brands.items() if ps}, max)),
            ("superlative", "Which category contains the fewest products?", names({k: v for k, v in sizes(categories).items() if v}, min)),
            ("superlative", "Tell me the two cheapest products in washed pink.", names(named(P("washed pink")), min, 2)),
            ("superlative", "Which color do the most Bekrifil products have?", names(dict(collections.Counter(base.name(c) for p in P("Bekrifil") for c in base.to("has_color", p))), max)),
            ("intercomparison", "Is Pairobro pricier than Jeabrodir on average?", truth(np.mean(prices("Pairobro")) > np.mean(prices("Jeabrodir")))),
            ("intercomparison", "Who has the larger assortment, Libugri or Quest Team?", {"names": [max(("Libugri", "Quest Team"), key=lambda n: len(P(n)))]}),
            ("distribution", "Is the price of coral pink products distributed normally?", normal(prices("coral pink"))),
            ("correlation", "Does the price of a product go up with its number of categories?", grows([price[p] for p in products], [many["has_category"][p] for p in products])),
            ("variance", "Do Libugri prices vary more than Bekrifil prices?", truth(stats.levene(prices("Libugri"), prices("Bekrifil"), center="median").pvalue < 0.05 and np.var(prices("Libugri")) > np.var(prices("Bekrifil")))),
            ("descriptive", "Does price depend on the category?", depends(*large(grouped(pairs(categories)), 1))),
            ("hypothetical", "If all prices doubled, how many products would cost over 200 dollars?", number(sum(2 * x > 200 for x in price.values()))),
            ("hypothetical", "What would the median price be if we only kept fencing tools?", number(np.median(prices("fencing tools")))),
            ("hypothetical", "Leaving out cycling gear, how many products remain?", number(len(without("cycling gear")))),
        ]
    return [
        ("aggregation", "how many items do you carry from Quest Team?", number(len(P("Quest Team")))),
        ("aggregation", "What's the number of products priced under ten dollars?", number(sum(x < 10 for x in price.values()))),
        ("aggregation", "What do products cost on average?", number(mean(products))),
        ("aggregation", "Tell me the median price of the stuff in parkour coaching.", number(np.median(prices("parkour coaching")))),
        ("aggregation", "What do all Bekrifil products cost together?", number(sum(prices("Bekrifil")))),
        ("aggregation", "How many different brands make fencing tools?", number(len({b for p in P("fencing tools") for b in base.to("has_brand", p)}))),
        ("aggregation", "how many coral pink products cost between $20 and $50", number(sum(20 <= x <= 50 for x in prices("coral pink")))),
        ("aggregation", "Give me the average price for each category.", {"groups": means(categories)}),
        ("aggregation", "How much is the cheapest Libugri product?", number(min(prices("Libugri")))),
        ("aggregation", "What share of the products is royal silver?", number(len(P("royal silver")) / len(products))),
        ("aggregation", "How many products have no brand at all?", number(sum(not n for n in many["has_brand"].values()))),
        ("aggregation", "How many products are both coral pink and from Bekrifil?", number(len(set(P("coral pink")) & set(P("Bekrifil"))))),
        ("superlative", "What's the priciest product you have?", names(named(products), max)),
        ("superlative", "Which three products in gymnastics clearance are cheapest?", names(named(P("gymnastics clearance")), min, 3)),
        ("superlative", "Which brand offers the widest range of products?", names(sizes(brands), max)),
        ("superlative", "Which colour is used most often?", names(sizes(colors), max)),
        ("superlative", "In which category do products have the lowest average price?", names(means(categories), min)),
        ("superlative", "Name the five brands with the most products.", names(sizes(brands), max, 5)),
        ("superlative", "What's the most expensive thing made by Zenith Outfitters?", names(named(P("Zenith Outfitters")), max)),
        ("intercomparison", "Who charges more on average, Pairobro or Libugri?", {"names": [max(("Pairobro", "Libugri"), key=lambda n: np.mean(prices(n)))]}),
        ("intercomparison", "Is royal silver more common than pastel rust?", truth(len(P("royal silver")) > len(P("pastel rust")))),
        ("intercomparison", "Between Quest Team and River Ziomack, who makes more products?", {"names": [max(("Quest Team", "River Ziomack"), key=lambda n: len(P(n)))]}),
        ("intercomparison", "Are fencing tools cheaper than cycling gear on average?", truth(np.mean(prices("fencing tools")) < np.mean(prices("cycling gear")))),
        ("intercomparison", "Does Jeabrodir sell more products over 100 dollars than Bekrifil?", truth(sum(x > 100 for x in prices("Jeabrodir")) > sum(x > 100 for x in prices("Bekrifil")))),
        ("distribution", "Do product prices look Gaussian?", normal(list(price.values()))),
        ("distribution", "Does the price of Pairobro products follow a normal distribution?", normal(prices("Pairobro"))),
        ("distribution", "Could the prices in cycling gear have come from a normal distribution?", normal(prices("cycling gear"))),
        ("correlation", "Do pricier products come in more colors?", grows([price[p] for p in products], [many["has_color"][p] for p in products])),
        ("correlation", "Is there any correlation between what a product costs and how many products are also viewed with it?", related([price[p] for p in products], [many["also_view"][p] for p in products])),
        ("correlation", "Do the also-buy and also-view counts of products go hand in hand?", related([many["also_buy"][p] for p in products], [many["also_view"][p] for p in products])),
        ("variance", "Do prices differ in spread between Bekrifil and Pairobro?", other_spread(prices("Bekrifil"), prices("Pairobro"))),
        ("variance", "Is the variability of prices the same for fencing tools and cycling gear?", same_spread(prices("fencing tools"), prices("cycling gear"))),
        ("variance", "Does the variance of the price differ across colors?", other_spread(*large(grouped(pairs(colors))))),
        ("descriptive", "Does the color of a product have anything to do with its price?", depends(*large(grouped(pairs(colors)), 1))),
        ("descriptive", "Is there a relationship between brand and price?", depends(*large(grouped(pairs(brands)), 1))),
        ("descriptive", "Are brand and color of products independent of each other?", {"truth": bool(chi.pvalue >= 0.05), "statistic": float(chi.statistic)}),
        ("hypothetical", "If we dropped everything by Bekrifil, what would the average price be?", number(mean(without("Bekrifil")))),
        ("hypothetical", "Suppose all prices rose by 5 %: how many products would cost more than $100?", number(sum(x * 1.05 > 100 for x in price.values()))),
        ("hypothetical", "Say prices fell by 20%. What would the average price be?", number(mean(products) * 0.8)),
        ("hypothetical", "How many products would be left without the ones in parkour coaching?", number(len(without("parkour coaching")))),
        ("hypothetical", "If each product were 3 dollars cheaper, how many would be under 10 dollars?", number(sum(x - 3 < 10 for x in price.values()))),
    ]


def mag(base, which):
    papers, authors, places = base.of("paper"), base.of("author"), base.of("institution")
    W, C, T, A = "author___writes___paper", "paper___cites___paper", "paper___has_topic___field_of_study", "author___affiliated_with___institution"
    year = {p: base.field(p, "Year") for p in papers}
    venue = {p: base.field(p, "OriginalVenue") for p in papers}
    refs = {p: base.field(p, "ReferenceCount") for p in papers}
    writers = {p: len(base.at(W, p)) for p in papers}
    topics = {base.name(f): base.at(T, f) for f in base.of("field_of_study")}

    def at(name):
        return base.at(A, base.named(name))

    def of_venue(name):
        return [p for p in papers if venue[p] == name]

    def mean(values):
        return np.mean(list(values))

    def sizes(values):
        return dict(collections.Counter(v for v in values if v is not None))

    known = [(venue[p], refs[p]) for p in papers if venue[p] is not None]
    if which == "third":
        return [
            ("aggregation", "How many publications are there from 2016 onwards?", number(sum(y >= 2016 for y in year.values()))),
            ("aggregation", "How many institutions do we know?", number(len(places))),
            ("aggregation", "How often was the Journal of Slow Systems published in?", number(len(of_venue("Journal of Slow Systems")))),
            ("aggregation", "What is the mean number of citations a paper receives?", number(mean(len(base.at(C, p)) for p in papers))),
            ("aggregation", "How many papers did Flora D. Flioteckini publish?", number(len(base.to(W, base.named("Flora D. Flioteckini"))))),
            ("aggregation", "For every year, what is the average reference count?", {"groups": {str(k): mean(v) for k, v in grouped([(year[p], refs[p]) for p in papers]).items()}}),
            ("aggregation", "How many papers have a single author?", number(sum(n == 1 for n in writers.values()))),
            ("aggregation", "How many papers on Nonlinear botany of insulators came out in 2012 or later?", number(sum(year[p] >= 2012 for p in topics["Nonlinear botany of insulators"]))),
            ("superlative", "Which paper cites the most other papers?", names({base.name(p): len(base.to(C, p)) for p in papers}, max)),
            ("superlative", "Who are the three most prolific authors?", names({base.name(a): len(base.to(W, a)) for a in authors}, max, 3)),
            ("superlative", "In which venue was the smallest number of papers published?", names(sizes(venue.values()), min)),
            ("intercomparison", "Does T. Flistodrim have more papers than Ines Prazebresski?", truth(len(base.to(W, base.named("T. Flistodrim"))) > len(base.to(W, base.named("Ines Prazebresski"))))),
            ("intercomparison", "Which of the two has published more, the Journal of Plain Results or the Northern Review of Methods?", {"names": [max(("Journal of Plain Results", "Northern Review of Methods"), key=lambda v: len(of_venue(v)))]}),
            ("distribution", "Does the author count of institutions follow a normal distribution?", normal([base.field(i, "AuthorCount") for i in places])),
            ("correlation", "Do newer papers have longer reference lists?", grows([year[p] for p in papers], [refs[p] for p in papers])),
            ("variance", "Is the reference count equally variable in the Annals of Measured Progress and the Bulletin of Open Questions?", same_spread([refs[p] for p in of_venue("Annals of Measured Progress")], [refs[p] for p in of_venue("Bulletin of Open Questions")])),
            ("descriptive", "Does it matter for the reference count where a paper appears?", depends(*large(grouped(known), 1))),
            ("hypothetical", "Had the Symposium on Useful Models never taken place, how many papers would we have?", number(sum(v != "Symposium on Useful Models" for v in venue.values()))),
        ]
    if which == "further":
        return [
            ("aggregation", "How many articles were released between 2008 and 2011?", number(sum(2008 <= y <= 2011 for y in year.values()))),
            ("aggregation", "What is the median number of references of papers in the Annals of Measured Progress?", number(np.median([refs[p] for p in of_venue("Annals of Measured Progress")]))),
            ("aggregation", "How many scientists are affiliated with the University of Tigru?", number(len(at("University of Tigru")))),
            ("aggregation", "What's the average paper count per author?", number(mean(len(base.to(W, a)) for a in authors))),
            ("aggregation", "How many papers deal with Spectral metallurgy of lasers?", number(len(topics["Spectral metallurgy of lasers"]))),
            ("aggregation", "What fraction of papers appeared after 2015?", number(sum(y > 2015 for y in year.values()) / len(papers))),
            ("superlative", "Which researcher published the most?", names({base.name(a): len(base.to(W, a)) for a in authors}, max)),
            ("superlative", "Which author from Floufazild Laboratories has the most papers?", names({base.name(a): len(base.to(W, a)) for a in at("Floufazild Laboratories")}, max)),
            ("superlative", "What topic has the most papers?", names({k: len(v) for k, v in topics.items()}, max)),
            ("superlative", "Which venue has the highest average reference count?", names({v: mean(r) for v, r in grouped(known).items()}, max)),
            ("intercomparison", "Were more papers published in 2017 than in 2014?", truth(sum(y == 2017 for y in year.values()) > sum(y == 2014 for y in year.values()))),
            ("intercomparison", "Which journal has more papers, Archive of Practical Theory or World Notes on Inquiry?", {"names": [max(("Archive of Practical Theory", "World Notes on Inquiry"), key=lambda v: len(of_venue(v)))]}),
            ("distribution", "Do publication years of papers follow a Gaussian?", normal(list(year.values()))),
            ("correlation", "Are papers with more authors newer?", grows([writers[p] for p in papers], [year[p] for p in papers])),
            ("variance", "Is the spread of years equal in the Journal of Slow Systems and the Archive of Practical Theory?", same_spread([year[p] for p in of_venue("Journal of Slow Systems")], [year[p] for p in of_venue("Archive of Practical Theory")])),
            ("descriptive", "Does the number of authors have anything to do with the venue of a paper?", depends(*large(grouped([(venue[p], writers[p]) for p in papers if venue[p]]), 1))),
            ("hypothetical", "How many papers would there be without those from the Bulletin of Open Questions?", number(sum(v != "Bulletin of Open Questions" for v in venue.values()))),
        ]
    return [
        ("aggregation", "how many papers came out in 2010?", number(sum(y == 2010 for y in year.values()))),
        ("aggregation", "How many papers appeared in the Journal of Slow Systems after 2012?", number(sum(year[p] > 2012 for p in of_venue("Journal of Slow Systems")))),
        ("aggregation", "What's a paper's reference count on average?", number(mean(refs.values()))),
        ("aggregation", "By how many authors is a paper written on average?", number(mean(writers.values()))),
        ("aggregation", "How many researchers work at Stiogurkburg State University?", number(len(at("Stiogurkburg State University")))),
        ("aggregation", "How many papers did authors from Port Saituhurk State University write?", number(len({p for a in at("Port Saituhurk State University") for p in base.to(W, a)}))),
        ("aggregation", "Break down the papers by year.", {"groups": {str(k): v for k, v in sizes(year.values()).items()}}),
        ("aggregation", "How many papers about Acoustic immunology of catalysts were published before 2010?", number(sum(year[p] < 2010 for p in topics["Acoustic immunology of catalysts"]))),
        ("aggregation", "In what year was the oldest paper published?", number(min(year.values()))),
        ("aggregation", "How many authors have written more than ten papers?", number(sum(len(base.to(W, a)) > 10 for a in authors))),
        ("aggregation", "How many different venues do the papers have?", number(len(sizes(venue.values())))),
        ("superlative", "Who has written the most papers?", names({base.name(a): len(base.to(W, a)) for a in authors}, max)),
        ("superlative", "Which institution employs the most authors?", names({base.name(i): len(base.at(A, i)) for i in places}, max)),
        ("superlative", "What is the most cited paper?", names({base.name(p): len(base.at(C, p)) for p in papers}, max)),
        ("superlative", "Which venue published the most papers?", names(sizes(venue.values()), max)),
        ("superlative", "In which year did the largest number of papers appear?", names({str(k): v for k, v in sizes(year.values()).items()}, max)),
        ("superlative", "Which paper has the longest author list?", names({base.name(p): n for p, n in writers.items()}, max)),
        ("superlative", "What are the top 3 fields of study by number of papers?", names({k: len(v) for k, v in topics.items()}, max, 3)),
        ("intercomparison", "Did more papers come out in 2005 or in 2003?", {"names": [max(("2005", "2003"), key=lambda y: sum(str(x) == y for x in year.values()))]}),
        ("intercomparison", "Is the average reference count higher in the Symposium on Useful Models than in the Bulletin of Open Questions?", truth(mean(refs[p] for p in of_venue("Symposium on Useful Models")) > mean(refs[p] for p in of_venue("Bulletin of Open Questions")))),
        ("intercomparison", "Which has more authors, Dreavikir Polytechnic or the University of Tigru?", {"names": [max(("Dreavikir Polytechnic", "University of Tigru"), key=lambda n: len(at(n)))]}),
        ("intercomparison", "Are there more papers on Inverse genomics of polymers than on Industrial metallurgy of textiles?", truth(len(topics["Inverse genomics of polymers"]) > len(topics["Industrial metallurgy of textiles"]))),
        ("distribution", "Are reference counts of papers normally distributed?", normal(list(refs.values()))),
        ("distribution", "Is the number of authors per paper bell shaped?", normal(list(writers.values()))),
        ("correlation", "Do papers with more authors have a higher reference count?", grows([writers[p] for p in papers], [refs[p] for p in papers])),
        ("correlation", "Is the year of a paper correlated with its reference count?", related([year[p] for p in papers], [refs[p] for p in papers])),
        ("correlation", "Do the paper count of an author and the number of their institutions rise together?", grows([len(base.to(W, a)) for a in authors], [len(base.to(A, a)) for a in authors])),
        ("variance", "Does the variance of reference counts differ between venues?", other_spread(*large(grouped(known)))),
        ("variance", "Do reference counts scatter equally in 2010 and 2005?", same_spread([refs[p] for p in papers if year[p] == 2010], [refs[p] for p in papers if year[p] == 2005])),
        ("descriptive", "Does the venue influence the reference count of a paper?", depends(*large(grouped(known), 1))),
        ("descriptive", "Is there an association between the venue and the year of papers?", depends(*large(grouped([(venue[p], year[p]) for p in papers if venue[p]]), 1))),
        ("hypothetical", "If papers from before 2005 were ignored, what would be the average reference count?", number(mean(refs[p] for p in papers if year[p] >= 2005))),
        ("hypothetical", "How many authors would papers have on average if those from 2010 were excluded?", number(mean(writers[p] for p in papers if year[p] != 2010))),
        ("hypothetical", "If every reference count were 2 higher, how many papers would have one over 20?", number(sum(r + 2 > 20 for r in refs.values()))),
    ]


def prime(base, which):
    drugs, diseases, genes = base.of("drug"), base.of("disease"), base.of("gene/protein")
    state = {d: base.field(d, "state") for d in drugs}

    def n(relation, ids, kind=None, into=False):
        step = base.at if into else base.to
        return {i: len(step(relation, i, kind)) for i in ids}

    effects, targets = n("side effect", drugs), n("target", drugs)
    treats, forbids = n("indication", drugs, into=True), n("contraindication", drugs, into=True)
    carriers, genes_of = n("carrier", drugs), n("associated with", diseases, "gene/protein")
    shown, exposures = n("phenotype present", diseases), n("linked to", diseases, into=True)

    def named(values):
        return {base.name(i): x for i, x in values.items()}

    def mean(values):
        return np.mean(list(values))

    def of(name):
        return [d for d in drugs if state[d] == name]

    def each(values):
        return [[values[d] for d in of(name)] for name in ("gas", "liquid", "solid")]

    prevalence = grouped([(base.field(d, "orphanet_prevalence"), genes_of[d]) for d in diseases])
    ataxia = base.named("idiopathic pituitary gland ataxia")
    if which == "third":
        return [
            ("descriptive", "Does the number of contraindications depend on the state of a drug?", depends(*[[forbids[d] for d in of(name)] for name in ("gas", "liquid", "solid")])),
            ("aggregation", "How many drugs have no known target?", number(sum(x == 0 for x in targets.values()))),
            ("aggregation", "How many enzymes does Brizothicillin have?", number(len(base.to("enzyme", base.named("Brizothicillin"))))),
            ("aggregation", "On average, how many phenotypes does a disease show?", number(mean(shown.values()))),
            ("aggregation", "How many drugs are there of each state?", {"groups": {k: float(v) for k, v in collections.Counter(state.values()).items()}}),
            ("aggregation", "How many drugs can treat juvenile gallbladder insufficiency?", number(len(base.to("indication", base.named("juvenile gallbladder insufficiency"))))),
            ("aggregation", "What proportion of the drugs has at least one side effect?", number(sum(x > 0 for x in effects.values()) / len(drugs))),
            ("superlative", "Which pathway has the largest number of genes?", names(named(n("interacts with", base.of("pathway"), "gene/protein", into=True)), max)),
            ("superlative", "What are the 2 drugs with the most targets?", names(named(targets), max, 2)),
            ("superlative", "Which liquid drug has the most side effects?", names({base.name(d): effects[d] for d in of("liquid")}, max)),
            ("intercomparison", "Who has more carriers: Woudrarkiazole or Kruprexizepam?", {"names": [max(("Woudrarkiazole", "Kruprexizepam"), key=lambda x: carriers[base.named(x)])]}),
            ("distribution", "Are the numbers of genes per disease normally distributed?", normal(list(genes_of.values()))),
            ("descriptive", "Is there a link between how many targets and how many carriers a drug has?", by_ranks([targets[d] for d in drugs], [carriers[d] for d in drugs])),
            ("hypothetical", "Ignoring solid drugs, what is the average number of targets?", number(mean(targets[d] for d in drugs if state[d] != "solid"))),
        ]
    if which == "further":
        return [
            ("aggregation", "How many medicines are solid?", number(len(of("solid")))),
            ("aggregation", "What's the average number of targets of a liquid drug?", number(mean(targets[d] for d in of("liquid")))),
            ("aggregation", "How many drugs cause more than five side effects?", number(sum(x > 5 for x in effects.values()))),
            ("aggregation", "How many side effects does Treajuparin have?", number(effects[base.named("Treajuparin")])),
            ("aggregation", "What share of drugs is liquid?", number(len(of("liquid")) / len(drugs))),
            ("superlative", "Which drug has the most contraindications?", names(named(forbids), max)),
            ("superlative", "Which disease is associated with the most genes?", names(named(genes_of), max)),
            ("intercomparison", "Do gas drugs have fewer targets on average than solid drugs?", truth(mean(targets[d] for d in of("gas")) < mean(targets[d] for d in of("solid")))),
            ("intercomparison", "Does Prabrilisetron have more indications than Haipraazole?", truth(treats[base.named("Prabrilisetron")] > treats[base.named("Haipraazole")])),
            ("distribution", "Does the number of targets of drugs look normal?", normal(list(targets.values()))),
            ("correlation", "Do drugs with more indications tend to have more contraindications?", grows(list(treats.values()), list(forbids.values()))),
            ("descriptive", "Is the number of targets of a drug dependent on its state?", depends(*each(targets))),
            ("hypothetical", "If the solid drugs were ignored, what would be the mean number of side effects of drugs?", number(mean(effects[d] for d in drugs if state[d] != "solid"))),
        ]
    return [
        ("aggregation", "How many drugs come as a gas?", number(len(of("gas")))),
        ("aggregation", "how many diseases is Prabrilisetron contraindicated for?", number(forbids[base.named("Prabrilisetron")])),
        ("aggregation", "How many drugs target AHP1?", number(len(base.at("target", base.named("AHP1"))))),
        ("aggregation", "To how many exposures is idiopathic pituitary gland ataxia linked?", number(exposures[ataxia])),
        ("aggregation", "How many side effects does a drug have on average?", number(mean(effects.values()))),
        ("aggregation", "List the number of diseases for each orphanet prevalence.", {"groups": {k: len(v) for k, v in prevalence.items()}}),
        ("aggregation", "How many solid drugs are without any indication?", number(sum(treats[d] == 0 for d in of("solid")))),
        ("aggregation", "How many drugs have both a target and a carrier?", number(sum(targets[d] > 0 and carriers[d] > 0 for d in drugs))),
        ("superlative", "Which drug has the most side effects?", names(named(effects), max)),
        ("superlative", "Which gene is the target of the most drugs?", names(named(n("target", genes, into=True)), max)),
        ("superlative", "For which disease are the most phenotypes present?", names(named(shown), max)),
        ("superlative", "Which pathway do the most genes interact with?", names(named(n("interacts with", base.of("pathway"), "gene/protein", into=True)), max)),
        ("superlative", "What is the most common state of drugs?", names(dict(collections.Counter(state.values())), max)),
        ("intercomparison", "Are there more liquid drugs than gas drugs?", truth(len(of("liquid")) > len(of("gas")))),
        ("intercomparison", "Do solid drugs have more side effects on average than liquid drugs?", truth(mean(effects[d] for d in of("solid")) > mean(effects[d] for d in of("liquid")))),
        ("intercomparison", "Which has more side effects, Prabrilisetron or Praboxiolol?", names({x: effects[base.named(x)] for x in ("Prabrilisetron", "Praboxiolol")}, max)),
        ("distribution", "Is the number of side effects per drug normally distributed?", normal(list(effects.values()))),
        ("correlation", "Do drugs with more targets have more side effects?", grows(list(targets.values()), list(effects.values()))),
        ("correlation", "Is the number of indications of a drug correlated with its number of contraindications?", related([treats[d] for d in drugs], [forbids[d] for d in drugs])),
        ("variance", "Does the number of side effects vary equally among solid, liquid and gas drugs?", same_spread(*each(effects))),
        ("variance", "Is the spread of the number of targets different for solid and liquid drugs?", other_spread([targets[d] for d in of("solid")], [targets[d] for d in of("liquid")])),
        ("descriptive", "Does the state of a drug affect how many side effects it has?", depends(*each(effects))),
        ("descriptive", "Is the orphanet prevalence of diseases related to how many genes are associated with them?", depends(*(v for _, v in sorted(prevalence.items())))),
        ("hypothetical", "Without the gas drugs, how many side effects would a drug have on average?", number(mean(effects[d] for d in drugs if state[d] != "gas"))),
        ("hypothetical", "If the liquid drugs were disregarded, how many drugs would remain?", number(sum(s != "liquid" for s in state.values()))),
    ]


def main():
    which = sys.argv[2] if len(sys.argv) > 2 else "first"
    for name, questions in (("amazon", amazon), ("mag", mag), ("prime", prime)):
        for kind, question, answer in questions(Base(f"{sys.argv[1]}/{name}"), which):
            print(name, kind, question, json.dumps(answer), sep="\t")


main()
