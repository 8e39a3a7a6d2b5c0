#!/usr/bin/env python3
"""Writes a help desk as people export it, with questions whose answers are known.

    make-helpdesk.py DIR [--seed N]

DIR/data has four tables (byte order mark, semicolons, cp1252, NULL, two forms of dates, lists by comma,
repeated rows), 20 training and 20 validation questions. DIR/held.jsonl has questions for measuring, by kind:
name, hops, words, relation (words and a relation), value, date, not, who. The same seed gives the same bytes.
"""

import argparse, csv, io, json, pathlib, random

FIRST = """Jürgen Anna Björn Carla Dörte Emil Francisca Günter Hélène Iván Jörg Käthe Lukas Mónica Nadja Ömer Petra
Raúl Sören Ulrike Verena Walter Yvonne Zoe Matthias Inés Clara Oliver Priya Tomás""".split()
LAST = """Müller Schäfer Weiß Köhler García Jäger Groß Peña Böhm Lindqvist Novak Okafor Haddad Brandt Quist Zöller
Ibáñez Vogel Krüger Sommer""".split()
DEPARTMENTS = """Purchasing Accounting Sales Marketing Logistics Legal Research Production Quality Facilities
Training Security""".split()
SITES = "Cologne Munich Hamburg Leipzig Madrid Lyon Graz".split()
ROLES = "analyst manager assistant engineer clerk".split()
CATEGORIES = "Network Printing Mail Hardware Software Access".split()
TAGS = "urgent-fix vip onsite remote warranty loaner escalated recurring".split()
STATUSES = ["open", "closed", "closed", "closed", "waiting"]
PRIORITIES = ["low", "medium", "medium", "high", "urgent"]
VENDORS = "Nordlicht Tamarin Quellwerk Peakline Solmar Ottavio".split()
LINES = """Aster Boreal Cirrus Dorado Ember Fjord Garnet Helix Iris Juno Kestrel Lumen Merlin Nimbus Onyx Pollux Quartz
Rigel Saturn Tundra""".split()
KINDS = ["Printer", "Laptop", "Router", "Scanner", "Monitor", "Headset"]
# For each language: a thing, what is wrong with it, how a question says so, and when.
TOPICS = {
    "en": [
        ("paper tray", "jams and tears the sheets", "sheets torn, jamming tray"),
        ("battery", "swells and empties within an hour", "swollen battery drains quickly"),
        ("fan", "rattles loudly under load", "loud rattling fan"),
        ("screen", "flickers in green stripes", "flickering green striped screen"),
        ("wireless signal", "drops behind the stairwell", "signal dropping near stairwells"),
        ("password reset", "loops back to the login mask", "looping reset of a password"),
        ("calendar", "duplicates every appointment", "duplicated appointments in the calendar"),
        ("microphone", "crackles during conferences", "crackling microphone in a conference"),
        ("scanned pages", "arrive rotated and blurred", "blurry rotated scans"),
        ("docking station", "loses the second display after sleep", "second display lost by dock"),
    ],
    "de": [
        ("Papiereinzug", "verschluckt die Blätter und knirscht", "knirschender Einzug verschluckt Papier"),
        ("Akku", "bläht sich auf und ist sofort leer", "aufgeblähter leerer Akku"),
        ("Lüfter", "brummt ständig im Büro", "brummender Lüfter"),
        ("Anmeldung", "schlägt nach dem Kennwortwechsel fehl", "fehlgeschlagene Anmeldung, Kennwort gewechselt"),
        ("Netzlaufwerk", "verschwindet nach jedem Neustart", "verschwundenes Netzlaufwerk"),
        ("Rechnungsvorlage", "druckt ohne Umlaute", "Vorlage für Rechnungen ohne Umlaut"),
        ("Tastatur", "klebt und verdoppelt Buchstaben", "klebende Taste, doppelte Buchstaben"),
        ("Besprechungsraum", "lässt sich nicht buchen", "Buchung von Besprechungsräumen"),
    ],
    "es": [
        ("teclado", "repite letras sin parar", "letras repetidas del teclado"),
        ("pantalla", "parpadea al arrancar", "pantalla parpadeante"),
    ],
}
OPENINGS = {
    "en": ["Since Monday the {0} {1}.", "The {0} {1}; please help.", "Once more the {0} {1}, twice a day."],
    "de": ["Seit Montag: {0} {1}.", "{0} {1}, bitte um Hilfe.", "Schon wieder: {0} {1}."],
    "es": ["Desde el lunes el {0} {1}.", "El {0} {1}, ayuda por favor."],
}
MONTHS = """January February March April May June July August September October November December""".split()
HELD = {"name": 14, "hops": 12, "words": 18, "relation": 14, "value": 18, "date": 10, "not": 10, "who": 14}


class Desk:
    """Rows of all tables, and questions over them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        r = self.rng
        names = [f"{line} {kind} {n}" for line in LINES for kind, n in zip(KINDS, (200, 350, 500, 650, 800, 950))]
        self.products = [
            {"id": f"P-{n:03}", "name": name, "vendor": r.choice(VENDORS), "category": r.choice(CATEGORIES),
             "price": f"{r.randint(1, 3)}.{r.randint(100, 999)},{r.randint(10, 99)}",
             "released": f"{r.randint(1, 28):02}.{r.randint(1, 12):02}.{r.randint(2018, 2024)}"}
            for n, name in enumerate(names, 1)]
        people = [f"{first} {last}" for first in FIRST for last in LAST]
        r.shuffle(people)
        self.employees = [
            {"id": f"E{n:04}", "name": name, "department": r.choice(DEPARTMENTS), "site": r.choice(SITES),
             "role": r.choice(ROLES), "hired": f"{r.randint(1, 28):02}.{r.randint(1, 12):02}.{r.randint(2005, 2024)}",
             "manager_id": f"E{r.randint(1, n):04}" if n > 10 else "NULL"}
            for n, name in enumerate(people[:300], 1)]
        self.tickets = [self.ticket(n) for n in range(1, 1501)]
        self.articles = [self.article(n) for n in range(1, 151)]
        self.by = {row["id"]: row for rows in self.tables() for row in rows}

    def tables(self):
        return self.products, self.employees, self.tickets, self.articles

    def topic(self):
        language = self.rng.choices(["en", "de", "es"], [50, 43, 7])[0]
        return language, self.rng.choice(TOPICS[language])

    def ticket(self, n):
        r = self.rng
        language, topic = self.topic()
        product, status = r.choice(self.products), r.choice(STATUSES)
        year, month, day = r.choice([2024, 2025]), r.randint(1, 12), r.randint(1, 28)
        subject = {"en": "Problem with the {}", "de": "Störung: {}", "es": "Problema con el {}"}[language]
        return {"id": f"T-{n:05}", "subject": subject.format(topic[0]),
                "description": r.choice(OPENINGS[language]).format(*topic),
                "priority": r.choice(PRIORITIES), "category": r.choice(CATEGORIES), "status": status,
                "created": f"{year}-{month:02}-{day:02} {r.randint(7, 18):02}:{r.randint(0, 59):02}",
                "closed": f"{day:02}.{month:02}.{year}" if status == "closed" else r.choice(["NULL", "", "n/a"]),
                "requested_by": r.choice(self.employees)["id"], "assigned_to": r.choice(self.employees[:40])["id"],
                "product_id": product["id"], "tags": ", ".join(r.sample(TAGS, r.choice([0, 1, 2, 2]))), "topic": topic}

    def article(self, n):
        r = self.rng
        language, topic = self.topic()
        product = r.choice(self.products)
        title = {"en": "{1}: guide to the {0}", "de": "{1}: Anleitung {0}", "es": "{1}: guía del {0}"}[language]
        body = {"en": "What to do when the {0} {1}: restart, clean, then call the desk.",
                "de": "Was tun, wenn {0} {1}: neu starten, reinigen, dann anrufen.",
                "es": "Qué hacer si el {0} {1}: reiniciar, limpiar y llamar."}[language]
        return {"id": f"A{n:03}", "title": title.format(topic[0], product["name"]), "body": body.format(*topic),
                "language": language, "category": r.choice(CATEGORIES),
                "updated": f"2025-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
                "author_id": r.choice(self.employees[:60])["id"], "product_id": product["id"], "topic": topic}

    def where(self, rows, **wanted):
        return [row["id"] for row in rows if all(row[key] == value for key, value in wanted.items())]

    def question(self, kind):
        """A question of a kind with the ids of its answers; None if there are none or too many."""
        r = self.rng
        t, a = r.choice(self.tickets), r.choice(self.articles)
        asker, product = self.by[t["requested_by"]], self.by[t["product_id"]]
        german = t["topic"] in TOPICS["de"]
        if kind == "name":
            if r.random() < 0.5:
                return f"tickets about the {product['name']}", self.where(self.tickets, product_id=product["id"])
            return (f"Tickets von {asker['name']}" if german else f"tickets requested by {asker['name']}",
                    self.where(self.tickets, requested_by=asker["id"]))
        if kind == "hops":
            mine = [x for x in self.tickets if x["requested_by"] == asker["id"]]
            if r.random() < 0.5:
                return (f"products in tickets requested by {asker['name']}", [x["product_id"] for x in mine])
            products = {x["product_id"] for x in mine}
            return (f"articles about products that {asker['name']} reported",
                    [x["id"] for x in self.articles if x["product_id"] in products])
        if kind == "words":
            rows = r.choice([self.tickets, self.articles])
            topic = r.choice(rows)["topic"]
            words = topic[2].replace(",", "").split()
            return " ".join(r.sample(words, len(words))), [
                x["id"] for x in self.tickets + self.articles if x["topic"] == topic]
        if kind == "relation":
            if r.random() < 0.5:
                text = "{} bei {}" if german else "{} reported by {}"
                return (text.format(t["topic"][2], asker["name"]),
                        self.where(self.tickets, requested_by=asker["id"], topic=t["topic"]))
            text = "{} am {}" if german else "{} on the {}"
            return (text.format(t["topic"][2], product["name"]),
                    self.where(self.tickets, product_id=product["id"], topic=t["topic"])
                    + self.where(self.articles, product_id=product["id"], topic=t["topic"]))
        if kind == "value":
            people = self.where(self.employees, department=asker["department"], site=asker["site"])
            place = f"{asker['department']} in {asker['site']}"
            of = [x for x in self.tickets if x["requested_by"] in people]
            which = r.random()
            if which < 0.4:
                return f"tickets of people in {place}", [x["id"] for x in of]
            if which < 0.7:
                return (f"{t['priority']} {t['category']} tickets of people in {asker['department']}",
                        [x["id"] for x in self.tickets
                         if (x["priority"], x["category"]) == (t["priority"], t["category"])
                         and self.by[x["requested_by"]]["department"] == asker["department"]])
            return f"employees in {place} with the role {asker['role']}", self.where(
                self.employees, department=asker["department"], site=asker["site"], role=asker["role"])
        if kind == "date":
            year, month = t["created"][:4], int(t["created"][5:7])
            rows = [x for x in self.tickets if x["created"][:7] == t["created"][:7]]
            if r.random() < 0.5:
                return (f"tickets about the {product['name']} created in {MONTHS[month - 1]} {year}",
                        self.where(rows, product_id=product["id"]))
            return (f"{t['priority']} {t['category']} tickets created in {MONTHS[month - 1]} {year}",
                    self.where(rows, priority=t["priority"], category=t["category"]))
        if kind == "not":
            if r.random() < 0.5:
                return (f"tickets about the {product['name']} that are not closed",
                        [x for x in self.where(self.tickets, product_id=product["id"])
                         if self.by[x]["status"] != "closed"])
            return (f"tickets requested by {asker['name']} that are not {t['category']}",
                    [x for x in self.where(self.tickets, requested_by=asker["id"])
                     if self.by[x]["category"] != t["category"]])
        which = r.random()
        if which < 0.4:
            return f"who wrote the article {a['title']}", [a["author_id"]]
        if which < 0.7:
            return (f"who is assigned to the tickets about the {product['name']}",
                    [x["assigned_to"] for x in self.tickets if x["product_id"] == product["id"]])
        return (f"who in {asker['site']} reported: {t['topic'][2]}",
                [x["requested_by"] for x in self.tickets
                 if x["topic"] == t["topic"] and self.by[x["requested_by"]]["site"] == asker["site"]])

    def questions(self, kind, n, seen):
        found = []
        while len(found) < n:
            text, answers = self.question(kind)
            answers = sorted(set(answers))
            # Words alone have many answers; all else few.
            if text in seen or not 0 < len(answers) <= (200 if kind == "words" else 30):
                continue
            seen.add(text)
            found.append({"kind": kind, "query": text, "answers": answers})
        return found


def write(path, rows, encoding, delimiter, rng, repeats=0):
    columns = [column for column in rows[0] if column != "topic"]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(columns)
    cells = [[row[column] for column in columns] for row in rows]
    for row in rng.sample(cells, repeats):
        cells.insert(rng.randrange(len(cells)), row)
    writer.writerows(cells)
    path.write_bytes(out.getvalue().encode(encoding))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    desk, data = Desk(options.seed), options.dir / "data"
    (data / "split").mkdir(parents=True, exist_ok=True)
    write(data / "products.csv", desk.products, "utf-8-sig", ";", desk.rng)
    write(data / "employees.csv", desk.employees, "cp1252", ";", desk.rng, 3)
    write(data / "tickets.csv", desk.tickets, "cp1252", ";", desk.rng, 7)
    write(data / "articles.csv", desk.articles, "utf-8", ",", desk.rng)
    seen, labelled = set(), []
    for at in range(40):
        labelled += desk.questions(list(HELD)[at % len(HELD)], 1, seen)
    desk.rng.shuffle(labelled)
    with (data / "qa.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "query", "answer_ids"])
        writer.writerows([n, q["query"], "[" + ",".join(q["answers"]) + "]"] for n, q in enumerate(labelled))
    for name, part in (("train", range(20)), ("val", range(20, 40))):
        (data / "split" / f"{name}.index").write_text("".join(f"{n}\n" for n in part))
    held = [q for kind, n in HELD.items() for q in desk.questions(kind, n, seen)]
    lines = (json.dumps(q, ensure_ascii=False) + "\n" for q in held)
    (options.dir / "held.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
