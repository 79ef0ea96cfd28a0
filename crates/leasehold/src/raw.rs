//! Plain commands to the server: [`ClientBuilder::connect_raw`](crate::ClientBuilder::connect_raw). They are exempt
//! from semantic versioning.

pub use crate::link::raw::RawConnection;
pub use leasehold_core::reply::Reply;
