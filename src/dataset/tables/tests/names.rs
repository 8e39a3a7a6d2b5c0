//! Tests of how tables are read: which columns name the rows, and which rows belong to others.

use agent_kb::Kb;

use super::{ImportOptions, Mapping, guess_of, home, import, imported, write};

#[test]
fn a_column_called_after_its_table_names_the_rows() {
    for (file, columns, rows, name) in [
        ("Bands.csv", "Band ID,Band,Label", ["B1,Moss,Red", "B2,Fern,Red"], Some("Band")),
        ("breeds.csv", "breed_id,species,breed", ["1,Dog,Boxer", "2,Dog,Collie"], Some("breed")),
        ("invoices.csv", "id,invoice_number,paid", ["1,R1,yes", "2,R2,no"], Some("invoice_number")),
        ("makers.csv", "id,company,country", ["1,Acme,UK", "2,Brown,UK"], Some("company")),
        ("wines.csv", "id,Wine,Note", ["1,Red hill,a b", "2,White hill,c d"], Some("Wine")),
        ("cellar.csv", "id,place,bottle", ["1,a b,Red hill", "2,c d,Old hill"], Some("bottle")),
        ("versions.csv", "id,ver_no,lines", ["1,4.2,7", "2,4.3,8"], Some("ver_no")),
        ("sites.csv", "id,address", ["1,2 High Street", "2,9 Low Street"], Some("address")),
        // Companies that several rows share, numbers, titles and addresses of people name no rows.
        ("orders.csv", "id,company,order", ["1,Acme,7", "2,Acme,8"], None),
        ("people.csv", "id,address", ["1,2 High Street", "2,9 Low Street"], None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[(file, &format!("{columns}\n{}\n", rows.join("\n")))]);
        let names = &guess_of(dir.path()).unwrap().mapping.nodes[0].name;
        assert_eq!(names.first().map(String::as_str), name, "{file}");
    }
}

#[test]
fn prose_times_and_inflected_headers_are_read_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let notes = ["Bankrupt once, in 2011.", "Late; pays in the end, mostly."];
    let firms: String = (1..31)
        .map(|n| format!("{n};Moos {n};\"{}\";{}:30;{}\n", notes[n % 2], n % 3 + 8, n % 4 + 1))
        .collect();
    let towns = "dept_key;dept_name\n1;Roads\n2;Parks\n3;Pools\n4;Cash\n";
    write(
        dir.path(),
        &[
            ("firmen.csv", &format!("nr;firma;note;opens;lead_dept\n{firms}")),
            ("offices.csv", towns),
        ],
    );
    let guess = guess_of(dir.path()).unwrap();
    let firms = guess.mapping.nodes.iter().find(|own| own.file == "firmen.csv").unwrap();
    assert_eq!(firms.name, ["firma"]);
    assert!(firms.lists.is_empty() && firms.values.is_empty(), "{firms:?}");
    assert_eq!(firms.relations.iter().map(|link| &*link.to).collect::<Vec<_>>(), ["office"]);
}

#[test]
fn the_values_of_objects_in_json_are_columns() {
    let dir = tempfile::tempdir().unwrap();
    let paper = |n: usize| {
        format!(
            r#"{{"id": "d{n}", "title": "Moss {n}", "author": {{"login": "p{}", "desk": {{"site": "Bonn"}}}}, "reviews": [{{"login": "p1", "note": "good"}}, {{"login": "p2", "note": "late"}}]}}"#,
            n % 2 + 1,
        )
    };
    let papers: Vec<String> = (1..4).map(paper).collect();
    write(
        dir.path(),
        &[("staff.csv", "login,name\np1,Ada\np2,Bo\n"), ("papers.jsonl", &papers.join("\n"))],
    );
    let guess = guess_of(dir.path()).unwrap();
    let papers = guess.mapping.nodes.iter().find(|own| own.file == "papers.jsonl").unwrap();
    let links = papers.relations.iter().map(|link| (&*link.column, &*link.relation, &*link.to));
    assert_eq!(
        links.collect::<Vec<_>>(),
        [("author_login", "has_author", "staff"), ("reviews_login", "has_reviews", "staff")]
    );
    assert!(papers.fields.iter().flatten().any(|field| field == "author_desk_site"));
}

#[test]
fn nouns_for_people_link_to_people() {
    let dir = tempfile::tempdir().unwrap();
    let staff: String = (1..6).map(|n| format!("{n},Ada,King {n},{}\n", n / 2 + 1)).collect();
    let sizes: String = (1..6).map(|n| format!("{n},{}\n", n * 7)).collect();
    let visits: String = (1..9).map(|n| format!("{n},{}\n", n % 5 + 1)).collect();
    write(
        dir.path(),
        &[
            ("personnel.csv", &format!("id,first_name,last_name,manager_id\n{staff}")),
            ("sizes.csv", &format!("id,litres\n{sizes}")),
            ("visits.csv", &format!("id,nurse_id\n{visits}")),
        ],
    );
    let mapping = guess_of(dir.path()).unwrap().mapping;
    let link = |at: usize| &mapping.nodes[at].relations[0];
    assert_eq!([&*link(0).to, &*link(2).to], ["personnel", "personnel"]);
}

#[test]
fn rows_without_names_that_belong_to_others_are_no_candidates_if_labels_agree() {
    for (answers, n, candidates) in [
        ("[f1]", 100, vec!["film", "user"]),
        ("[f1]", 99, vec!["film", "review", "user"]),
        ("[r1]", 100, vec!["film", "review", "user"]),
        ("", 0, vec!["film", "review", "user"]),
    ] {
        let (dir, home) = home();
        let files = [
            ("films.csv", "id,title\nf1,Moss\nf2,Fern\n"),
            ("users.csv", "id,name\nu1,Ada\n"),
            ("reviews.csv", "id,film_id,user_id,text\nr1,f1,u1,too long\nr2,f2,u1,quiet\n"),
        ];
        write(dir.path(), &files);
        let rows: String = (0..n).map(|id| format!("{id},long,{answers}\n")).collect();
        if n > 0 {
            write(dir.path(), &[("qa.csv", &format!("id,query,answer_ids\n{rows}"))]);
        }
        let kb = Kb::open(&imported(dir.path(), &home).base.kb_dir()).unwrap();
        let types = kb.candidate_types().iter().map(|kind| kb.type_name(*kind));
        assert_eq!(types.collect::<Vec<_>>(), candidates, "{n} of {answers}");
    }
}

#[test]
fn abbreviated_columns_are_names_keys_and_links() {
    let (dir, _) = home();
    let teams = "team_cd,team_nm,lead_eng_id\nPLT,Platform,E1\nFIN,Finance,E2\nWEB,Web,E3\n";
    let engineer =
        |n: u32| format!("E{n},Mr,Ann{n},Lind{n},{}\n", ["PLT", "FIN", "WEB"][n as usize % 3]);
    let engineers: String = (1..31).map(engineer).collect();
    let engineers = format!("eng_id,title,fname,sname,team_cd\n{engineers}");
    let contacts: String = (1..31).map(|n| format!("{n},Bo{n},Quist{n}\n")).collect();
    let contacts = format!("cont_id,first_nm,last_nm\n{contacts}");
    let ticket =
        |n: u32| format!("T-{n},Broken seam {n} on a pump,{},E{}\n", 1 + n % 30, 1 + n % 30);
    let tickets: String = (1..61).map(ticket).collect();
    let tickets = format!("tkt_no,subj,rep_by_cont,owner\n{tickets}");
    let site = |n: u32| format!("S{n},{n} Mill Lane\n");
    let sites: String = (1..31).map(site).collect();
    let sites = format!("site_id,addr1\n{sites}");
    let files = [
        ("teams.csv", teams),
        ("engineers.csv", &engineers),
        ("contacts.csv", &contacts),
        ("tickets.csv", &tickets),
        ("sites.csv", &sites),
    ];
    write(dir.path(), &files);
    assert_eq!(
        guess_of(dir.path()).unwrap().mapping.lines(),
        [
            "contacts.csv: one contact per row: id cont_id, name first_nm + last_nm",
            "engineers.csv: one engineer per row: id eng_id, name fname + sname, fields title, \
             team_cd -has_team-> team",
            "sites.csv: one site per row: id site_id, name addr1",
            "teams.csv: one team per row: id team_cd, name team_nm, \
             lead_eng_id -has_lead_eng-> engineer",
            "tickets.csv: one ticket per row: id tkt_no, name subj, \
             rep_by_cont -rep_by_cont-> contact, owner -owner-> engineer",
        ]
    );
}

#[test]
fn a_mapping_says_what_codes_mean_and_how_people_call_types() {
    let (dir, home) = home();
    let grants: String = (0..40).map(|n| format!("g{n},{}\n", ["T", "L"][n % 2])).collect();
    write(dir.path(), &[("grants.csv", &format!("grant_id,stat\n{grants}"))]);
    let guess = guess_of(dir.path()).unwrap();
    assert!(guess.notes.iter().any(|note| note.contains("stat has codes")), "{:?}", guess.notes);
    let text = guess.mapping.to_toml();
    let text = text.replace(r#""T" = """#, r#""T" = "terminated""#);
    let import = |said_as: &str| {
        write(dir.path(), &[("mapping.toml", &format!("{said_as}\n{text}"))]);
        let mapping = Mapping::read(&dir.path().join("mapping.toml")).unwrap();
        import(dir.path(), &mapping, &home, &ImportOptions::default())
    };
    let error = import("said_as = { grants = [\"award\"] }").unwrap_err().to_string();
    assert!(error.contains("mapping.toml: said_as names \"grants\""), "{error}");
    let report = import("said_as = { grant = [\"award\"] }").unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    let stat = kb.nodes_of_type(kb.type_id("stat").unwrap());
    let names: Vec<&str> = stat.iter().map(|&node| kb.name(node)).collect();
    assert_eq!(names, ["terminated", "L"]);
    let alias = kb.field_id("alias").unwrap();
    assert_eq!(kb.field(stat[0], alias), Some("T"));
    let field = kb.field_id("stat").unwrap();
    assert_eq!(kb.field(0, field), Some("terminated"));
    assert_eq!(kb.manifest().said_as["grant"], ["award"]);
}
