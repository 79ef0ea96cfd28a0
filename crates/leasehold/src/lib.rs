//! x

mod link;
