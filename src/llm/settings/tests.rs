//! Tests valid settings files, and the errors of invalid ones.

use proptest::prelude::*;

use super::*;

const ROLES: [RoleSpec; 2] = [
    RoleSpec { name: "actor", summary: "writes", temperature: None, max_tokens: 8_192 },
    RoleSpec { name: "router", summary: "chooses", temperature: Some(0.0), max_tokens: 1_024 },
];
const ACTOR: Role = ROLES[0].role();
const ROUTER: Role = ROLES[1].role();

fn read(text: &str) -> Result<Settings, SettingsError> {
    Settings::read(text, "config.toml", &ROLES)
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    let error = read(text).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn nothing_is_the_default_and_has_no_model() {
    assert_eq!(read("").unwrap(), Settings::default());
    assert_eq!(read("[llm]\n").unwrap(), Settings::default());
    assert_eq!(Settings::default().role_settings(None, &ROLES), Err(vec![ACTOR, ROUTER]));
    let roles = Settings::default().role_settings(Some("m"), &ROLES).unwrap();
    let numbers = |role: &Role| (roles[role].temperature, roles[role].max_tokens);
    assert_eq!([numbers(&ACTOR), numbers(&ROUTER)], [(None, 8_192), (Some(0.0), 1_024)]);
    assert!(roles.len() == 2 && roles.values().all(|set| set.model == "m"));
}

#[test]
fn embedders_have_names_models_and_settings() {
    let settings = read(
        r#"
        [embedders.e5]
        model = "candle:models/e5"
        query_prefix = "query: "
        document_prefix = "passage: "
        normalize = false
        [embedders."ada-256"]
        model = "openai:text-embedding-3-large"
        dimensions = 256
        "#,
    )
    .unwrap();
    let e5 = &settings.embedders["e5"];
    assert_eq!((e5.model.as_str(), e5.normalize), ("candle:models/e5", Some(false)));
    assert_eq!(e5.query_prefix.as_deref(), Some("query: "));
    assert_eq!(settings.embedders["ada-256"].dimensions, Some(256));
    let candle = "[embedders.a]\nmodel = \"candle:a\"\n";
    refuses(&format!("{candle}query_prefx = \"a\""), "did you mean query_prefix?");
    refuses(&format!("{candle}dimensions = 3"), "embedders.a.dimensions must be a number");
    refuses(&format!("{candle}normalize = 1"), "config.toml:3:");
    refuses("[embedders.a]\nnormalize = false", "model");
    refuses("[embedders.a]\nmodel = \"builtin\"", "must be \"candle:DIR\" or \"openai:MODEL\"");
    refuses("[embedders.\"a b\"]\nmodel = \"candle:a\"", "must be named with letters");
    let long = "x".repeat(5_000);
    refuses(&format!("{candle}query_prefix = \"{long}\""), "at most 4096 bytes");
}

#[test]
fn everything_can_be_set() {
    let settings = read(
        r#"
        [llm]
        base_url = "https://x.openai.azure.com/openai/v1"
        model = "general"
        key_env = "MY_VARIABLE"
        key_header = "api-key"
        organisation = "org"
        project = "proj"
        json = "object"
        token_limit = "max_completion_tokens"
        unusable_retries = 1
        headers = { x-team = "search" }
        query = { api-version = "2024-10-21" }
        [llm.limits]
        connect_s = 1
        first_byte_s = 2.5
        idle_s = 3
        attempt_s = 4
        total_s = 5
        first_wait_s = 0.5
        longest_wait_s = 6
        attempts = 7
        at_a_time = 8
        failures_in_a_row = 9
        reply_bytes = 10
        requests_per_minute = 11
        tokens_per_minute = 12
        [llm.roles.actor]
        model = "large"
        temperature = 0.7
        max_tokens = 100
        parameters = { reasoning_effort = "high", top_p = 0.9, stop = ["a"] }
        [llm.roles.router]
        temperature = "none"
        [llm.prices."general"]
        input = 0.15
        output = 1
        "#,
    )
    .unwrap();
    let s = Duration::from_secs_f64;
    let limits = Limits {
        connect: s(1.0),
        first_byte: s(2.5),
        idle: s(3.0),
        attempt: s(4.0),
        total: s(5.0),
        first_wait: s(0.5),
        longest_wait: s(6.0),
        attempts: 7,
        at_a_time: 8,
        failures_in_a_row: 9,
        reply_bytes: 10,
        requests_per_minute: Some(11),
        tokens_per_minute: Some(12),
    };
    assert_eq!(settings.limits, limits);
    let token_limit = Some(TokenLimit::MaxCompletionTokens);
    assert_eq!(
        settings.form,
        Form { json: Some(JsonForm::Object), token_limit, unusable_retries: 1 }
    );
    assert_eq!(settings.llm.prices["general"], Price { input: 0.15, output: 1.0 });
    assert_eq!(settings.llm.query["api-version"], "2024-10-21");
    let roles = settings.role_settings(Some("given"), &ROLES).unwrap();
    let actor = &roles[&ACTOR];
    assert_eq!(
        (actor.model.as_str(), actor.temperature, actor.max_tokens),
        ("large", Some(0.7), 100)
    );
    let parameters = serde_json::json!({"reasoning_effort": "high", "top_p": 0.9, "stop": ["a"]});
    assert_eq!(Value::Object(actor.parameters.clone()), parameters);
    assert_eq!((roles[&ROUTER].model.as_str(), roles[&ROUTER].temperature), ("given", None));
    assert_eq!(settings.role_settings(None, &ROLES).unwrap()[&ROUTER].model, "general");
}

#[test]
fn unknown_names_are_refused_with_line_and_nearest() {
    refuses(
        "\n[llm]\nmodle = \"x\"",
        "config.toml:3: there is no setting llm.modle; did you mean model?",
    );
    refuses("[lm]\n", "config.toml:1: there is no setting lm; did you mean llm?");
    refuses("[llm.limits]\nconnect = 3", "llm.limits.connect; did you mean connect_s?");
    refuses("[llm.roles.actr]\nmodel = \"x\"", "llm.roles.actr; did you mean actor?");
    refuses("[llm.roles.react]\nmodel = \"x\"", "there is no setting llm.roles.react");
    refuses(
        "[llm.roles.actor]\n\ntemprature = 1",
        "config.toml:3: there is no setting llm.roles.actor.temprature; did you mean temperature?",
    );
    refuses("[llm.prices.m]\nin = 1", "there is no setting llm.prices.m.in");
    refuses("[llm]\nzzz = 1", "there is no setting llm.zzz");
    assert!(!read("[llm]\nzzz = 1").unwrap_err().to_string().contains("did you mean"));
}

#[test]
fn l9_keys_are_refused_and_never_repeated() {
    for text in [
        "[llm]\napi_key = \"abc-123456\"",
        "[llm]\nkey = \"abc-123456\"",
        "[llm]\nOPENAI_API_KEY = \"abc-123456\"",
        "[llm]\nheaders = { Authorization = \"abc-123456\" }",
        "[llm.headers]\nx-api-key = \"abc-123456\"",
        "[llm.query]\nkey = \"abc-123456\"",
        "[llm]\nmodel = \"sk-abc-123456\"",
        "[llm]\nkey_env = \"sk-abc-123456\"",
        "[llm]\nheaders = { x = \"Bearer abc-123456\" }",
        "[llm.roles.actor.parameters]\nuser = [\"sk-abc-123456\"]",
        "api_key = \"abc-123456\"",
    ] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, SettingsError::Secret { .. }), "{text}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("123456") && shown.contains("OPENAI_API_KEY"), "{shown}");
    }
    // What cannot be read at all is not repeated either.
    for text in [
        "[llm]\napi_key = abc-123456",
        "[llm]\nmodel = [\"abc-123456\"]",
        "[llm.limits]\nattempts = \"abc-123456\"",
        "[llm]\njson = \"abc-123456\"",
    ] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, SettingsError::Syntax { line: 2, .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("123456"), "{error}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_line() {
    refuses(
        "[llm.limits]\n\ntotal_s = 0",
        "config.toml:3: llm.limits.total_s must be a time from 0.001 to 86400 seconds",
    );
    refuses("[llm.limits]\nidle_s = nan", "llm.limits.idle_s must be");
    refuses("[llm.limits]\nat_a_time = 0", "llm.limits.at_a_time must be a number from 1 to 256");
    refuses("[llm.limits]\nreply_bytes = 1000000000", "llm.limits.reply_bytes must be");
    refuses("[llm]\nunusable_retries = 11", "llm.unusable_retries must be 0 to 10");
    refuses(
        "[llm.roles.actor]\ntemperature = 3",
        "llm.roles.actor.temperature must be a number from 0 to 2",
    );
    refuses(
        "[llm.roles.actor]\ntemperature = \"hot\"",
        "config.toml:2: llm.roles.actor.temperature",
    );
    refuses("[llm.roles.actor]\nmax_tokens = 0", "llm.roles.actor.max_tokens must be");
    refuses(
        "[llm.roles.actor.parameters]\nstream = true",
        "config.toml:2: llm.roles.actor.parameters.stream must be left out",
    );
    refuses("[llm.prices.m]\ninput = -1\noutput = 1", "llm.prices.m.input must be USD");
    refuses("[llm.prices.m]\ninput = 1", "missing field `output`");
    refuses("[llm]\nmodel = \"\"", "config.toml:2: llm.model must be a name of 1 to 200");
    refuses("[llm.roles.router]\nmodel = \"a\\nb\"", "llm.roles.router.model must be a name");
    refuses("[llm", "config.toml:1:");
    refuses(&" ".repeat(MAX_FILE_BYTES + 1), "more than 1048576 bytes");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(\\[?llm[.]?[a-z_]{0,8}\\]?( = )?[0-9\"{}\\[,a-z.=\\n-]{0,24}\\n?){0,6}") {
        let _ = read(&text);
    }
}
