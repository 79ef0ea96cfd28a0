//! Scripts on a server by their text, and what it answers in the terms of the core.

use bytes::Bytes;
use leasehold_core::reply::Reply;
use leasehold_test_support::Resp;

/// The words of the command that runs a script.
pub(crate) fn eval(source: &str, keys: &[Bytes], args: &[Bytes]) -> Vec<Bytes> {
    let count = keys.len().to_string();
    let head = ["EVAL", source, &count].map(|word| Bytes::copy_from_slice(word.as_bytes()));
    head.into_iter().chain(keys.iter().chain(args).cloned()).collect()
}

/// The reply; the text of a refusal is an error.
pub(crate) fn reply(resp: Resp) -> Result<Reply, String> {
    Ok(match resp {
        Resp::Int(number) => Reply::Int(number),
        Resp::Nil => Reply::Nil,
        Resp::Bulk(bytes) => Reply::Bulk(bytes.into()),
        Resp::Simple(text) => Reply::Bulk(text.into()),
        Resp::Array(parts) => Reply::Array(parts.into_iter().map(reply).collect::<Result<_, _>>()?),
        Resp::Error(text) => return Err(text),
        other => panic!("{other:?}"),
    })
}
