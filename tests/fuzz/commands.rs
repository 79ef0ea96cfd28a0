//! Commands of the embedded engine: none panics, those that read change nothing, and no key is left empty.

use crate::source::Source;
use leasehold_core::reply::Reply;
use leasehold_embedded::{EmbeddedServer, ManualClock};

pub(crate) const CORPUS: [&[u8]; 10] = [
    b"HSET k f 1\nHINCRBY k f 3\nHGETALL k\nHDEL k f",
    b"SET k v PX 100 NX\nPTTL k\nGET k\nPERSIST k",
    b"ZADD k 1.5 a 2 b\nZRANGE k (1 +inf BYSCORE LIMIT 0 5 WITHSCORES\nZREM k a b",
    b"ZADD k NX CH 1 a\nZINCRBY k inf a\nZREMRANGEBYSCORE k -inf (7\nZCOUNT k 0 9",
    b"RPUSH k a b c\nLREM k -1 b\nLRANGE k 0 -1\nLPOP k\nRPOP k",
    b"PEXPIREAT k 1800000000001\nPEXPIRE k -1\nEXISTS k k\nDEL k",
    b"INCRBY k 9223372036854775807\nINCR k\nDECRBY k -9223372036854775808",
    b"KEYS *\nTYPE k\nTIME\nPUBLISH c m\nSPUBLISH c m",
    b"HMGET k a b\nHSETNX k a b\nHKEYS k\nHVALS k\nHLEN k",
    b"get\nSET k\nNOSUCH k v\n",
];

const READS: [&str; 22] = [
    "GET",
    "EXISTS",
    "TYPE",
    "KEYS",
    "PTTL",
    "TIME",
    "HGET",
    "HMGET",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "HLEN",
    "HEXISTS",
    "LLEN",
    "LINDEX",
    "LRANGE",
    "ZSCORE",
    "ZRANK",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYSCORE",
];

pub(crate) fn check(data: &[u8]) {
    // Its clock stands, so that nothing expires in between.
    let server = EmbeddedServer::with_clock(ManualClock::new());
    for line in data.split(|byte| *byte == b'\n').take(40) {
        // Words are separated by blanks; what follows a backslash is taken for a number that is hard to read.
        let texts: Vec<Vec<u8>> = line
            .split(|byte| *byte == b' ')
            .map(|word| match word.split_first() {
                Some((b'\\', rest)) => Source::new(rest).number().to_string().into_bytes(),
                _ => word.to_vec(),
            })
            .collect();
        let words: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let before = dump(&server);
        let answer = server.command(&words);
        let after = dump(&server);
        if let Err(refusal) = &answer {
            assert!(refusal.code().chars().all(|letter| letter.is_ascii_uppercase()), "{refusal} begins with a code");
            assert_eq!(before, after, "what was refused has changed nothing: {}", line.escape_ascii());
        }
        let name = words[0].to_ascii_uppercase();
        if READS.iter().any(|read| read.as_bytes() == name) {
            assert_eq!(before, after, "{} reads", line.escape_ascii());
        }
    }
}

/// Every key with its type and content, each of which must be something.
fn dump(server: &EmbeddedServer) -> Vec<(bytes::Bytes, Reply, Reply)> {
    let run = |words: &[&[u8]]| server.command(words).unwrap_or_else(|error| panic!("{error}"));
    let keys = server.keys().into_iter().map(|key| {
        let kind = run(&[b"TYPE", &key]);
        let content = match kind.text() {
            Ok("string") => run(&[b"GET", &key]),
            Ok("hash") => run(&[b"HGETALL", &key]),
            Ok("list") => run(&[b"LRANGE", &key, b"0", b"-1"]),
            Ok("zset") => run(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]),
            _ => panic!("{key:?} is listed, and is {kind:?}"),
        };
        assert!(content != Reply::Array(Vec::new()), "{key:?} is an empty {kind:?}");
        (key, kind, content)
    });
    keys.collect()
}
