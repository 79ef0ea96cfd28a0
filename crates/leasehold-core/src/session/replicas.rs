//! Conditions of replicas: how their answers are read, and how two conditions are joined.
//!
//! The server answers such a call twice over: what the script did, and how many replicas have it. The first without enough of the
//! second is a state of the primary alone, which a failover may undo. It never puts a deadline off, and an acquire that ends so is
//! taken back before its caller is told.

use crate::call::Replicas;
use crate::reply::{DecodeError, Reply};

/// The script's reply, and how many replicas acknowledged it.
pub(super) fn split(reply: &Reply) -> Result<(&Reply, u32), DecodeError> {
    let [script, acknowledged] = reply.array()? else {
        return Err(DecodeError::new("an array of two", reply));
    };
    let count = u32::try_from(acknowledged.int()?);
    Ok((script, count.map_err(|_| DecodeError::new("a number of replicas", acknowledged))?))
}

/// The condition that satisfies both of the given ones.
pub(super) fn both(one: Option<Replicas>, other: Option<Replicas>) -> Option<Replicas> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}
