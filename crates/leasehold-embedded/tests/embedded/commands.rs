//! The effect of each command.

use crate::support::{check, command, server};

#[test]
fn strings() {
    let (server, _) = server();
    check(
        &server,
        r#"
        GET s => nil
        SET s one => "OK"
        get s => "one"
        SET s two NX => nil
        SET s two XX => "OK"
        SET other x XX => nil
        GET s => "two"
        SET s x PX 1000 => "OK"
        PTTL s => 1000
        SET s x KEEPTTL => "OK"
        PTTL s => 1000
        SET s 5 EX 2 => "OK"
        INCR s => 6
        INCRBY s -10 => -4
        DECRBY s 6 => -10
        DECR s => -11
        PTTL s => 2000
        SET s 5 => "OK"
        PTTL s => -1
        SET s 5 PX 0 => !ERR invalid expire time in 'set' command
        SET s 5 PX x => !ERR value is not an integer or out of range
        SET s 5 PX => !ERR syntax error
        SET s 5 NX XX => !ERR syntax error
        SET s 5 SOON => !ERR syntax error
        SET s 9223372036854775807 => "OK"
        INCR s => !ERR increment or decrement would overflow
        SET s 01 => "OK"
        INCR s => !ERR value is not an integer or out of range
        INCRBY fresh 7 => 7
        "#,
    );
}

#[test]
fn hashes() {
    let (server, _) = server();
    check(
        &server,
        r#"
        HSET h b 1 a 2 => 2
        HSET h a 3 c 4 => 1
        HGET h a => "3"
        HGET h none => nil
        HGET none a => nil
        HMGET h a none b => ["3", nil, "1"]
        HMGET none a b => [nil, nil]
        HGETALL h => ["b", "1", "a", "3", "c", "4"]
        HKEYS h => ["b", "a", "c"]
        HVALS h => ["1", "3", "4"]
        HGETALL none => []
        HLEN h => 3
        HLEN none => 0
        HEXISTS h a => 1
        HEXISTS h none => 0
        HSETNX h a 9 => 0
        HSETNX h d 9 => 1
        HINCRBY h a -5 => -2
        HINCRBY h new 5 => 5
        HSET h text x => 1
        HINCRBY h text 1 => !ERR hash value is not an integer
        HINCRBY h a 1.5 => !ERR value is not an integer or out of range
        HINCRBY gone text x => !ERR value is not an integer or out of range
        EXISTS gone => 0
        HDEL h a none c => 2
        HDEL none a => 0
        HSET h odd => !ERR wrong number of arguments for 'hset' command
        HSET h a 1 b => !ERR wrong number of arguments for 'hset' command
        HSET one f v => 1
        HDEL one f => 1
        EXISTS one => 0
        "#,
    );
}

#[test]
fn lists() {
    let (server, _) = server();
    check(
        &server,
        r#"
        RPUSH l b c => 2
        LPUSH l a z => 4
        LRANGE l 0 -1 => ["z", "a", "b", "c"]
        LRANGE l 1 2 => ["a", "b"]
        LRANGE l 5 9 => []
        LRANGE none 0 -1 => []
        LINDEX l 0 => "z"
        LINDEX l -1 => "c"
        LINDEX l 4 => nil
        LINDEX l -5 => nil
        LLEN l => 4
        LLEN none => 0
        LPOP l => "z"
        RPOP l => "c"
        LPOP none => nil
        RPUSH l x b x b => 6
        LREM l 1 b => 1
        LRANGE l 0 -1 => ["a", "x", "b", "x", "b"]
        LREM l -1 b => 1
        LRANGE l 0 -1 => ["a", "x", "b", "x"]
        LREM l 0 x => 2
        LREM l 0 none => 0
        LREM none 0 x => 0
        LRANGE l 0 -1 => ["a", "b"]
        LREM l 0 a => 1
        RPOP l => "b"
        EXISTS l => 0
        "#,
    );
}

#[test]
fn sorted_sets() {
    let (server, _) = server();
    check(
        &server,
        r#"
        ZADD z 2 b 1 a => 2
        ZADD z 3 b 1 c => 1
        ZADD z CH 4 b 1 a => 1
        ZADD z NX 9 a 5 d => 1
        ZADD z XX 6 d 1 e => 0
        ZSCORE z d => "6"
        ZSCORE z e => nil
        ZSCORE none e => nil
        ZRANGE z 0 -1 => ["a", "c", "b", "d"]
        ZRANGE z 0 0 WITHSCORES => ["a", "1"]
        ZRANGE z 0 1 REV => ["d", "b"]
        ZRANGE z (1 +inf BYSCORE => ["b", "d"]
        ZRANGE z +inf 4 BYSCORE REV LIMIT 1 1 => ["b"]
        ZRANGE z 0 -1 LIMIT 0 1 => !ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGEBYSCORE z -inf 4 => ["a", "c", "b"]
        ZRANGEBYSCORE z -inf (4 WITHSCORES LIMIT 1 -1 => ["c", "1"]
        ZRANGEBYSCORE z x 4 => !ERR min or max is not a float
        ZRANGEBYSCORE none 0 4 => []
        ZRANK z b => 2
        ZRANK z none => nil
        ZCARD z => 4
        ZCARD none => 0
        ZCOUNT z 1 4 => 3
        ZCOUNT z (1 (6 => 1
        ZINCRBY z 0.5 a => "1.5"
        ZINCRBY z 2 fresh => "2"
        ZINCRBY z -0 zero => "-0"
        ZSCORE z zero => "0"
        ZREM z zero => 1
        ZADD z x a => !ERR value is not a valid float
        ZADD z 1 a 2 => !ERR syntax error
        ZREM z a none => 1
        ZREM none a => 0
        ZREMRANGEBYSCORE z -inf 2 => 2
        ZREMRANGEBYSCORE z -inf +inf => 2
        EXISTS z => 0
        ZADD none XX 1 a => 0
        EXISTS none => 0
        ZADD i inf a => 1
        ZINCRBY i -inf a => !ERR resulting score is not a number (NaN)
        ZSCORE i a => "inf"
        "#,
    );
}

#[test]
fn keys_of_any_type() {
    let (server, _) = server();
    check(
        &server,
        r#"
        SET s x => "OK"
        HSET h f v => 1
        RPUSH l x => 1
        ZADD z 1 x => 1
        TYPE s => "string"
        TYPE h => "hash"
        TYPE l => "list"
        TYPE z => "zset"
        TYPE none => "none"
        EXISTS s h h none => 3
        KEYS * => ["h", "l", "s", "z"]
        DEL s h none => 2
        UNLINK l => 1
        PERSIST z => 0
        PEXPIRE z 10 => 1
        PERSIST z => 1
        PTTL z => -1
        PTTL none => -2
        TIME => ["1800000000", "0"]
        "#,
    );
    assert_eq!(server.keys(), ["z"]);
}

#[test]
fn every_command_on_a_key_refuses_another_type() {
    let (server, _) = server();
    check(&server, "SET string x => \"OK\"\nHSET hash f v => 1");
    let of_strings = ["GET", "INCR", "DECR", "INCRBY 1", "DECRBY 1"];
    let of_others = [
        "HGET f",
        "HMGET f",
        "HGETALL",
        "HKEYS",
        "HVALS",
        "HLEN",
        "HEXISTS f",
        "HSET f v",
        "HSETNX f v",
        "HINCRBY f 1",
        "HDEL f",
        "LPUSH x",
        "RPUSH x",
        "LPOP",
        "RPOP",
        "LLEN",
        "LINDEX 0",
        "LRANGE 0 -1",
        "LREM 0 x",
        "ZADD 1 x",
        "ZINCRBY 1 x",
        "ZREM x",
        "ZREMRANGEBYSCORE 0 1",
        "ZSCORE x",
        "ZRANK x",
        "ZCARD",
        "ZCOUNT 0 1",
        "ZRANGE 0 -1",
        "ZRANGEBYSCORE 0 1",
    ];
    let cases = of_strings.map(|case| ("hash", case)).into_iter().chain(of_others.map(|case| ("string", case)));
    for (key, case) in cases {
        let (name, rest) = case.split_once(' ').unwrap_or((case, ""));
        assert_eq!(
            command(&server, &format!("{name} {key} {rest}")),
            "!WRONGTYPE Operation against a key holding the wrong kind of value",
            "{case}"
        );
    }
    check(&server, "GET string => \"x\"\nHGETALL hash => [\"f\", \"v\"]");
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
