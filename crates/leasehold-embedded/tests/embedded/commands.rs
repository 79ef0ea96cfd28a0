//! Forms of commands that the histories of `tests/differential` do not contain.

use crate::support::{check, command, server};

#[test]
fn malformed_commands_are_refused() {
    let (server, _) = server();
    check(
        &server,
        r#"
        SET s 5 PX 0 => !ERR invalid expire time in 'set' command
        SET s 5 PX x => !ERR value is not an integer or out of range
        SET s 5 PX => !ERR syntax error
        SET s 5 NX XX => !ERR syntax error
        SET s 5 SOON => !ERR syntax error
        SET s 9223372036854775807 => "OK"
        INCR s => !ERR increment or decrement would overflow
        PEXPIRE s 9223372036854775807 => !ERR invalid expire time in 'pexpire' command
        PEXPIRE s x => !ERR value is not an integer or out of range
        HSET h text x => 1
        HINCRBY h text 1 => !ERR hash value is not an integer
        HINCRBY gone text x => !ERR value is not an integer or out of range
        EXISTS gone => 0
        HSET h odd => !ERR wrong number of arguments for 'hset' command
        HSET h a 1 b => !ERR wrong number of arguments for 'hset' command
        ZADD z 1 a 2 => !ERR syntax error
        ZADD none XX 1 a => 0
        EXISTS none => 0
        ZRANGE z 0 -1 LIMIT 0 1 => !ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZADD i inf a => 1
        ZINCRBY i -inf a => !ERR resulting score is not a number (NaN)
        "#,
    );
}

#[test]
fn rare_options_select_elements() {
    let (server, _) = server();
    check(
        &server,
        r#"
        ZADD z 1 a 3 b 1 c 6 d => 4
        ZRANGE z +inf 1 BYSCORE REV LIMIT 1 1 => ["b"]
        ZRANGEBYSCORE z -inf (3 WITHSCORES LIMIT 1 -1 => ["c", "1"]
        ZINCRBY z -0 zero => "-0"
        ZSCORE z zero => "0"
        DEL z none => 1
        "#,
    );
}

#[test]
fn what_the_engine_lacks_is_refused_loudly() {
    let (server, _) = server();
    check(
        &server,
        "
        SCAN 0 => !ERR unknown command 'SCAN', with args beginning with: '0' (the embedded engine does not have this command)
        KEYS a* => !ERR the embedded engine lists keys by the pattern '*' only
        GET => !ERR wrong number of arguments for 'get' command
        GET a b => !ERR wrong number of arguments for 'get' command
        PEXPIRE a 1 NX => !ERR the embedded engine knows the option GT of PEXPIRE only
        ",
    );
}

#[test]
fn full_memory_refuses_growth_only() {
    let (server, _) = server();
    check(&server, "HSET h f v => 1\nSET s 1 => \"OK\"");
    server.deny_growth(true);
    let refused = "!OOM command not allowed when used memory > 'maxmemory'.";
    for growing in ["SET s 2", "INCR s", "HSET h f w", "HINCRBY h n 1", "RPUSH l x", "ZADD z 1 x"] {
        assert_eq!(command(&server, growing), refused, "{growing}");
    }
    check(&server, "HGET h f => \"v\"\nPEXPIRE h 10 => 1\nHDEL h f => 1\nDEL s => 1\nPUBLISH c m => 0");
    server.deny_growth(false);
    check(&server, "SET s 2 => \"OK\"");
}
