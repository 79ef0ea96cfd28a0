//! The Lua that scripts see, as Redis 7 gives it.

use crate::support::{call, check, command, eval, server, show};
use bytes::Bytes;
use leasehold_core::script;

fn check_lua(cases: &[(&str, &str)]) {
    let (server, _) = server();
    for (source, expected) in cases {
        assert_eq!(eval(&server, source), *expected, "{source}");
    }
}

#[test]
fn replies_follow_the_rules_of_redis() {
    check_lua(&[
        ("return {3.99, true, false, nil, 5}", "[3, 1, nil]"),
        ("return -3.99", "-3"),
        (
            "return {2 ^ 62, 2 ^ 63, -2 ^ 63, 0 / 0}",
            "[4611686018427387904, -9223372036854775808, -9223372036854775808, -9223372036854775808]",
        ),
        ("return 'text'", "\"text\""),
        ("return", "nil"),
        ("return false", "nil"),
        ("return {}", "[]"),
        ("return {{1, 'a'}, {}}", "[[1, \"a\"], []]"),
        ("return {ok = 'FINE'}", "\"FINE\""),
        ("return {err = 'CODE text'}", "!CODE text"),
        ("return {x = 1}", "[]"),
        ("return redis.status_reply('FINE')", "\"FINE\""),
        ("return redis.error_reply('CODE text')", "!CODE text"),
        ("return redis.error_reply('-CODE text')", "!CODE text"),
        ("return redis.error_reply('text')", "!ERR text"),
        ("return {'a', err = 'CODE text'}", "!CODE text"),
        ("return {'a', ok = 'FINE'}", "\"FINE\""),
        ("return {err = 1, 'a'}", "[\"a\"]"),
        ("return {1, {err = 'CODE text'}}", "!ERR the embedded engine cannot put an error into an array: CODE text"),
        ("local t = {} t[1] = t return t", "!ERR reached lua stack limit"),
    ]);
}

#[test]
fn answers_of_commands_become_lua_values() {
    check_lua(&[
        ("return type(redis.call('GET', 'none'))", "\"boolean\""),
        ("return redis.call('SET', 'k', 'v').ok", "\"OK\""),
        ("return redis.call('TYPE', 'k').ok", "\"string\""),
        ("return type(redis.call('DEL', 'k'))", "\"number\""),
        ("return redis.call('HMGET', 'none', 'a')[1] == false", "1"),
        ("return #redis.call('HGETALL', 'none')", "0"),
        ("redis.call('SET', 'k', 0.5) return redis.call('GET', 'k')", "\"0.5\""),
        ("redis.call('SET', 'k', 7) return redis.call('GET', 'k')", "\"7\""),
        ("redis.call('SET', 'k', 1e15) return redis.call('GET', 'k')", "\"1000000000000000\""),
        ("redis.call('SET', 'k', 1e17 + 2) return redis.call('GET', 'k')", "\"1e+17\""),
        ("redis.call('SET', 'k', 2 ^ 62) return redis.call('GET', 'k')", "\"4.6116860184273879e+18\""),
        (
            "redis.call('HSET', 'h', 'f', '9007199254740992') return redis.call('HINCRBY', 'h', 'f', 1)",
            "9007199254740992",
        ),
        ("return redis.call('HGET', 'h', 'f')", "\"9007199254740993\""),
    ]);
}

#[test]
fn errors_raise_through_call_and_are_tables_through_pcall() {
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    check_lua(&[
        (
            "redis.call('SET', 'k', 'v')\nlocal v = redis.call('HGET', 'k', 'f')",
            &format!("!{wrong} script: eval, on @user_script:2."),
        ),
        // A tail call leaves no frame behind, and so no line to name. (A real server still names it.)
        ("return redis.call('HGET', 'k', 'f')", &format!("!{wrong}")),
        ("return redis.pcall('HGET', 'k', 'f').err", &format!("\"{wrong}\"")),
        ("return redis.pcall('HGET', 'k', 'f')", &format!("!{wrong}")),
        ("local ok, e = pcall(redis.call, 'HGET', 'k', 'f') return {ok, e}", &format!("[nil, \"{wrong}\"]")),
        (
            "redis.call('GET')",
            "!ERR Wrong number of args calling Redis command from script script: eval, on @user_script:1.",
        ),
        (
            "redis.call()",
            "!ERR Please specify at least one argument for this redis lib call script: eval, on @user_script:1.",
        ),
        (
            "redis.call('GET', {})",
            "!ERR Lua redis lib command arguments must be strings or integers script: eval, on @user_script:1.",
        ),
        (
            "redis.call('GET', true)",
            "!ERR Lua redis lib command arguments must be strings or integers script: eval, on @user_script:1.",
        ),
        ("error('broken')", "!ERR user_script:1: broken script: eval, on @user_script:1."),
        ("error({err = 'CODE broken'})", "!CODE broken script: eval, on @user_script:1."),
        (
            "\n\nlocal x = nil + 1",
            "!ERR user_script:3: attempt to perform arithmetic on a nil value script: eval, on @user_script:3.",
        ),
        (
            "local function f()\n redis.call('HGET', 'k', 'f')\nend\nf()",
            &format!("!{wrong} script: eval, on @user_script:2."),
        ),
    ]);
    let (server, _) = server();
    assert!(eval(&server, "return +").starts_with("!ERR Error compiling script (new function): user_script:1:"));
}

#[test]
fn writes_before_an_error_stay() {
    let (server, _) = server();
    assert!(eval(&server, "redis.call('SET', 'k', 'v') redis.call('HLEN', 'k')").starts_with("!WRONGTYPE"));
    assert_eq!(command(&server, "GET k"), "\"v\"");
}

#[test]
fn globals_are_protected() {
    let nonexistent = |name: &str| {
        format!(
            "!ERR user_script:1: Script attempted to access nonexistent global variable '{name}' script: eval, on @user_script:1."
        )
    };
    let readonly = "!ERR user_script:1: Attempt to modify a readonly table script: eval, on @user_script:1.";
    let (server, _) = server();
    for name in [
        "os",
        "io",
        "require",
        "package",
        "debug",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "print",
        "rawset",
        "getmetatable",
        "setfenv",
        "getfenv",
        "collectgarbage",
        "newproxy",
        "coroutine",
        "_G",
        "whatever",
    ] {
        assert_eq!(eval(&server, &format!("return {name}")), nonexistent(name));
    }
    for source in [
        "x = 1",
        "KEYS = {}",
        "redis = nil",
        "redis.call = nil",
        "string.find = nil",
        "table.x = 1",
        "function f() end",
    ] {
        assert_eq!(eval(&server, source), readonly, "{source}");
    }
    for (source, expected) in [
        ("return {type(string.dump), type(math.random)}", "[\"nil\", \"nil\"]"),
        (
            "return {math.floor(2.7), string.upper('a'), ('x'):rep(3), #table.concat({'a', 'b'})}",
            "[2, \"A\", \"xxx\", 2]",
        ),
        (
            "return {tostring(1), tonumber('12'), type({}), select('#', 1, 2), unpack({7})}",
            "[\"1\", 12, \"table\", 2, 7]",
        ),
        ("return pcall(setmetatable, string, {})", "nil"),
    ] {
        assert_eq!(eval(&server, source), expected, "{source}");
    }
}

#[test]
fn keys_and_arguments_are_fresh_in_every_call() {
    let (server, _) = server();
    let bytes =
        |texts: &[&'static str]| texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect::<Vec<_>>();
    let source = "KEYS[1] = KEYS[1] .. '!' return {#KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1]}";
    let reply = server.eval(source, &bytes(&["a", "b"]), &bytes(&["\u{0}x"]));
    assert_eq!(show(&reply), "[2, \"a!\", \"b\", 1, \"\u{0}x\"]");
    assert_eq!(show(&server.eval(source, &bytes(&["a"]), &[])), "[1, \"a!\"]");
}

#[test]
fn full_memory_stops_a_script_at_its_first_write_only() {
    let (server, _) = server();
    check(&server, "SET k v => \"OK\"");
    server.deny_growth(true);
    assert_eq!(
        eval(&server, "redis.call('GET', 'k') local r = redis.call('SET', 'k', 'w')"),
        "!OOM command not allowed when used memory > 'maxmemory'. script: eval, on @user_script:1."
    );
    assert_eq!(eval(&server, "redis.call('DEL', 'k') return redis.call('SET', 'k', 'w')"), "\"OK\"");
}

#[test]
fn calls_are_counted() {
    let (server, _) = server();
    assert_eq!(server.calls("lock/inspect"), 0);
    for _ in 0..3 {
        server.execute(&call(&script::INSPECT, "k", "")).expect("inspecting always works");
    }
    assert_eq!((server.calls("lock/inspect"), server.calls("lock/acquire")), (3, 0));
}
